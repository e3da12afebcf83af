"""Mount paths: the steps that make room for them, and the rewriting where there is no room."""

from runnerscale.node.mounts import (
    Bind,
    Step,
    There,
    kept_visible,
    plan_steps,
    rewrite,
    rewrite_argument,
    rewrite_environment,
)

FOLDERS = {"/", "/etc", "/run", "/home", "/data/cfg", "/data/token", "/data/work", "/etc/ssl"}
FILES = {"/etc/hosts", "/data/file"}


def lookup(path: str) -> There:
    if path in FILES:
        return There.FILE
    return There.FOLDER if path in FOLDERS else There.NOTHING


def resolve(path: str) -> str:
    return "/run" + path.removeprefix("/var/run") if path.startswith("/var/run") else path


def steps(*binds: Bind) -> list[Step]:
    return plan_steps(binds, lookup=lookup, resolve=resolve)


def test_a_missing_path_rebuilds_the_folder_above_it() -> None:
    assert steps(Bind("/data/cfg", "/etc/gha-listener", read_only=True)) == [
        Step("rebuild", "/etc"),
        Step("mkdir", "/etc/gha-listener"),
        Step("bind", "/etc/gha-listener", "/data/cfg"),
        Step("read_only", "/etc/gha-listener"),
    ]


def test_a_path_that_exists_is_only_bound_over() -> None:
    assert steps(Bind("/data/cfg", "/etc/ssl")) == [Step("bind", "/etc/ssl", "/data/cfg")]


def test_links_of_the_machine_are_followed() -> None:
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    made = steps(Bind("/data/token", account))
    assert made[0] == Step("rebuild", "/run")
    assert made[-1] == Step("bind", "/run/secrets/kubernetes.io/serviceaccount", "/data/token")
    assert [s.path for s in made if s.do == "mkdir"] == [
        "/run/secrets",
        "/run/secrets/kubernetes.io",
        "/run/secrets/kubernetes.io/serviceaccount",
    ]


def test_a_folder_is_rebuilt_once_for_two_paths() -> None:
    made = steps(Bind("/data/cfg", "/etc/a"), Bind("/data/token", "/etc/b"))
    assert [step.path for step in made if step.do == "rebuild"] == ["/etc"]


def test_a_path_inside_another_mount_is_made_in_it_and_comes_later() -> None:
    made = steps(Bind("/data/work", "/home/runner/_work"), Bind("/data/cfg", "/home/runner"))
    assert made == [
        Step("rebuild", "/home"),
        Step("mkdir", "/home/runner"),
        Step("bind", "/home/runner", "/data/cfg"),
        Step("mkdir", "/home/runner/_work"),
        Step("bind", "/home/runner/_work", "/data/work"),
    ]


def test_a_path_at_the_top_rebuilds_the_root() -> None:
    assert steps(Bind("/data/work", "/workspace"))[0] == Step("rebuild", "/")


def test_a_single_file_gets_a_file_to_be_bound_over() -> None:
    assert Step("touch", "/etc/one.conf") in steps(Bind("/data/file", "/etc/one.conf"))


def test_the_root_is_rebuilt_before_anything_is_hidden() -> None:
    # /etc is mounted over: what the other volumes are made of might be below it.
    made = steps(Bind("/data/cfg", "/etc"), Bind("/data/work", "/new/deep"))
    assert [(step.do, step.path) for step in made] == [
        ("rebuild", "/"),
        ("mkdir", "/new"),
        ("mkdir", "/new/deep"),
        ("bind", "/new/deep"),
        ("bind", "/etc"),
    ]


def test_folders_of_an_image_stay_visible_below_a_mount() -> None:
    binds = [Bind("/data/work", "/home/runner"), Bind("/data/cfg", "/etc/app")]
    folders = ("/home/runner/python", "/home/runner", "/opt/python", "/home/runner/python")
    assert kept_visible(binds, folders) == [Bind("/home/runner/python", "/home/runner/python")]


BINDS = [Bind("/data/cfg", "/etc/app"), Bind("/data/work", "/etc/app/deep")]


def test_rewriting_takes_the_longest_mount_path_at_the_beginning() -> None:
    assert rewrite("/etc/app/config.json", BINDS) == "/data/cfg/config.json"
    assert rewrite("/etc/app/deep/x", BINDS) == "/data/work/x"
    assert rewrite("/etc/app", BINDS) == "/data/cfg"
    assert rewrite("/etc/apple", BINDS) == "/etc/apple"
    assert rewrite("x:/etc/app", BINDS) == "x:/etc/app"


def test_arguments_are_rewritten_after_the_equals_sign_of_a_flag() -> None:
    assert rewrite_argument("--config=/etc/app/a", BINDS) == "--config=/data/cfg/a"
    assert rewrite_argument("/etc/app/a", BINDS) == "/data/cfg/a"
    assert rewrite_argument("A=/etc/app/a", BINDS) == "A=/etc/app/a"


def test_every_value_of_the_environment_is_rewritten() -> None:
    env = {"LISTENER_CONFIG_PATH": "/etc/app/config.json", "OTHER": "x"}
    assert rewrite_environment(env, BINDS) == {
        "LISTENER_CONFIG_PATH": "/data/cfg/config.json",
        "OTHER": "x",
    }
