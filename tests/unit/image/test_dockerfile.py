"""The image's rules, read off the Dockerfile: what may not be in it, and what must.

No linter for Dockerfiles is to be had as a package; these are the rules that matter to us, each
with its reason. That the image works is `tests/system/test_image.py`.
"""

import re
import tomllib
from importlib import metadata

import pytest

from runnerscale.app.versions import COMPATIBLE_VERSION
from tests.unit.image import dockerfile
from tests.unit.image.dockerfile import ROOT

TEXT = (ROOT / "Dockerfile").read_text()
IGNORE = (ROOT / ".dockerignore").read_text()
BUILD = (ROOT / "image" / "build.sh").read_text()
STAGES = dockerfile.read(TEXT)
BUILDER, FINAL = STAGES

# registry/path:tag, and a digest where one was passed
REFERENCE = re.compile(r"[a-z0-9.-]+\.[a-z]+/[a-z0-9./-]+:[\w.-]+(@sha256:[0-9a-f]{64})?")


def findings(text: str) -> list[str]:
    """What in a Dockerfile is against the rules."""
    found = []
    for stage in dockerfile.read(text):
        if not REFERENCE.fullmatch(stage.base) or ":latest" in stage.base:
            found.append(f"{stage.base}: a base has its registry, and a tag that is not latest")
        for run in stage.all("RUN"):
            if re.search(r"(curl|wget).*\|\s*(ba)?sh", run.rest):
                found.append(f"{run.rest}: what is fetched is not run unseen")
            if re.search(r"\b(sudo|apt-get|apk)\b", run.rest):
                found.append(f"{run.rest}: packages come by hash from the lock")
            if "pip install" in run.rest and "--require-hashes" not in run.rest:
                found.append(f"{run.rest}: packages come by hash from the lock")
        for copy in stage.all("COPY"):
            if "://" in copy.rest:
                found.append(f"{copy.rest}: nothing is fetched")
        for item in stage.all("ENV") + stage.all("LABEL"):
            if re.search(r"(?i)(token|password|secret|key)\w*=", item.rest):
                found.append(f"{item.rest}: no secret in the image")
    last = dockerfile.read(text)[-1]
    users = [item.rest for item in last.all("USER")]
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        found.append("the user is none but root: a number, so that runAsNonRoot can tell")
    entries = last.all("ENTRYPOINT")
    if len(entries) != 1 or not entries[0].rest.startswith("["):
        found.append("one ENTRYPOINT in exec form: signals reach the process itself")
    if last.all("RUN"):
        found.append("nothing is run in the final stage: there is no shell")
    return found


def test_our_dockerfile_keeps_the_rules() -> None:
    assert findings(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('ENTRYPOINT ["/manager"]', "ENTRYPOINT /manager"),
        ("USER 65532:65532\n", ""),
        ("USER 65532:65532", "USER root"),
        ("USER 65532:65532", "USER nonroot"),
        ("RUN sh image/build.sh /out", "RUN curl -s https://example.test/x | sh"),
        ("RUN sh image/build.sh /out", "RUN pip install aiohttp"),
        ("RUN sh image/build.sh /out", "RUN apt-get install -y python3"),
        ("python3-debian12:nonroot", "python3-debian12"),
        ("python3-debian12:nonroot", "python3-debian12:latest"),
        ("gcr.io/distroless/python3", "python3"),
        ("ENV RUNNERSCALE_COMMIT=", "ENV GITHUB_TOKEN="),
        ("COPY src/ src/", "COPY https://example.test/src.tar src/"),
    ],
)
def test_a_dockerfile_that_breaks_a_rule_is_found_out(old: str, new: str) -> None:
    assert old in TEXT
    assert len(findings(TEXT.replace(old, new))) == 1


def test_an_instruction_that_no_rule_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="ADD"):
        dockerfile.read(TEXT.replace("COPY src/", "ADD src/"))


def test_a_base_with_its_digest_may_be_passed() -> None:
    pinned = f"gcr.io/distroless/python3-debian12:nonroot@sha256:{'0' * 64}"
    stage = dockerfile.read(TEXT.replace("gcr.io/distroless/python3-debian12:nonroot", pinned))[-1]
    assert stage.base == pinned
    assert REFERENCE.fullmatch(pinned)


def test_both_stages_have_the_same_python() -> None:
    # Byte code and compiled wheels of the one are run by the other: Debian 12 has 3.11.
    assert BUILDER.base == "docker.io/library/python:3.11-slim-bookworm"
    assert FINAL.base == "gcr.io/distroless/python3-debian12:nonroot"
    assert '"--python-version", "3.11"' in (ROOT / "tools" / "lock.py").read_text()


def test_the_build_runs_on_the_platform_that_it_is_for() -> None:
    # Emulated or native: pip then takes the wheels of that platform; nothing names one by itself.
    assert "--platform=" not in TEXT
    assert "TARGET" not in TEXT


def test_user_entry_point_and_version_are_those_of_the_contract() -> None:
    assert [item.rest for item in FINAL.all("USER")] == ["65532:65532"]
    assert FINAL.all("ENTRYPOINT")[0].words == ["/manager"]
    assert FINAL.arguments["VERSION"] == COMPATIBLE_VERSION
    assert "for name in manager ghalistener" in BUILD


def test_the_labels_of_the_image_say_what_it_is() -> None:
    (labels,) = FINAL.all("LABEL")
    words = dict(word.split("=", 1) for word in labels.words)
    filled = {key.rpartition(".")[2]: FINAL.filled(value) for key, value in words.items()}
    assert all(key.startswith("org.opencontainers.image.") for key in words)
    assert filled == {
        "title": "runnerscale",
        "description": "Queued GitHub Actions jobs become ephemeral runners: controller and "
        "listener",
        "source": "https://github.com/runnerscale/runnerscale",
        "licenses": "Apache-2.0",
        "version": COMPATIBLE_VERSION,
        "revision": "unknown",
    }


def test_build_arguments_reach_labels_and_environment() -> None:
    final = dockerfile.read(TEXT, VERSION="0.14.9", COMMIT_SHA="abc123")[-1]
    (labels,) = final.all("LABEL")
    assert "0.14.9" in final.filled(labels.rest)
    assert [final.filled(item.rest) for item in final.all("ENV")] == ["RUNNERSCALE_COMMIT=abc123"]


@pytest.mark.parametrize(
    ("path", "goes"),
    [
        ("src/runnerscale/cli/main.py", True),
        ("image/build.sh", True),
        ("image/requirements.lock", True),
        ("src/runnerscale/cli/__pycache__/main.cpython-311.pyc", False),
        (".git/config", False),
        (".venv/bin/python", False),
        ("tests/conftest.py", False),
        ("requirements.lock", False),
        ("kubeconfig.yaml", False),
    ],
)
def test_only_what_is_copied_goes_to_the_builder(path: str, goes: bool) -> None:
    assert dockerfile.in_context(path, IGNORE) is goes


def test_everything_that_is_copied_exists_and_goes_to_the_builder() -> None:
    sources = [item.words[0] for item in BUILDER.all("COPY")]
    assert sources == ["image/", "src/"]
    for source in sources:
        assert (ROOT / source).is_dir()
        assert dockerfile.in_context(f"{source}x", IGNORE)


# --- the packages -------------------------------------------------------------------------------


def test_the_image_has_exactly_what_controller_and_listener_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = {*project["dependencies"], *extras["fast"], *extras["azure"]}
    lines = (ROOT / "image" / "requirements.in").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == needed


def test_the_images_packages_have_the_pins_of_the_tested_ones() -> None:
    tested, image = _pins("requirements.lock"), _pins("image/requirements.lock")
    assert {name: pin for name, pin in image.items() if tested.get(name, pin) != pin} == {}
    assert {"rich", "cyclopts", "common-expression-language", "hatchling"} & set(image) == set()


def test_no_package_that_the_image_needs_is_missing() -> None:
    image = _pins("image/requirements.lock")
    asked = [re.split(r"[<>=]", line)[0].lower() for line in image]
    missing = set()
    for name in asked:
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # of [azure]: not installed where the tests run
        needs = {_name(text) for text in requires if "extra ==" not in text and _applies(text)}
        missing |= needs - set(image)
    assert missing == set()


def test_every_package_comes_by_hash_and_as_a_wheel() -> None:
    text = (ROOT / "image" / "requirements.lock").read_text()
    blocks = re.split(r"\n(?=[a-z])", text)
    assert [block.splitlines()[0] for block in blocks[1:] if "--hash=sha256:" not in block] == []
    assert "--require-hashes" in BUILD
    assert "--only-binary=:all:" in BUILD


def _pins(path: str) -> dict[str, str]:
    found = re.findall(r"^([a-z][\w.-]*)==(\S+)", (ROOT / path).read_text(), flags=re.MULTILINE)
    return dict(found)


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0].lower().replace("_", "-")


def _applies(requirement: str) -> bool:
    """Whether it is asked for on the image's platform: CPython 3.11 on Linux."""
    marker = requirement.partition(";")[2]
    older = re.search(r'python_(full_)?version\s*<\s*"3\.(\d+)', marker)
    elsewhere = re.search(r'(win32|Windows|== "PyPy"|== "Darwin")', marker)
    return not elsewhere and not (older and int(older[2]) <= 11)
