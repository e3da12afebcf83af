"""The style page as a test: each ban says what to write instead."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "runnerscale"
MODULES = sorted(SOURCE.rglob("*.py"))
# These run alone on the runner's side, with the standard library only (start-up time).
STANDALONE = {"fake_github/demo_runner.py", "fake_github/demo_runner_job.py", "node/shim.py"}

FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 500
VAGUE = re.compile(r"(^|_)(utils?|helpers?|common|misc)$")

# dotted call -> (rooms or files that may, what to use instead)
CALLS = {
    "time.time": ("core/", "the Clock that was handed in: clock.now_s()"),
    "time.monotonic": ("core/", "the Clock that was handed in: clock.monotonic_s()"),
    "time.sleep": ("core/", "await clock.sleep(seconds)"),
    "asyncio.sleep": ("core/", "await clock.sleep(seconds)"),
    "datetime.now": ("core/", "clock.now_s() and core.clock.format_time"),
    "datetime.utcnow": ("core/", "clock.now_s() and core.clock.format_time"),
    "uuid.uuid4": ("core/", "core.randomness.uuid_text(random)"),
    "random.random": ("core/", "the Random that was handed in"),
    "random.choice": ("core/", "the Random that was handed in"),
    "random.uniform": ("core/", "the Random that was handed in"),
    "random.Random": ("core/", "core.randomness.system_random() in app/, handed in elsewhere"),
    "asyncio.gather": ("", "core.bounded.run_bounded or asyncio.TaskGroup"),
    "asyncio.create_task": ("kube/", "a TaskGroup, or a task that its owner awaits"),
    "asyncio.ensure_future": ("app/process.py", "a TaskGroup"),
}


def place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def findings(path: Path) -> Iterator[str]:
    text = path.read_text()
    tree = ast.parse(text)
    where = place(path)
    if not ast.get_docstring(tree):
        yield f"{where}: no module docstring: say why the file exists"
    if len(text.splitlines()) > MODULE_LINES_MAX:
        yield f"{where}: over {MODULE_LINES_MAX} lines: a file is one idea, split it"
    if VAGUE.search(path.stem):
        yield f"{where}: name it after its idea"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{where}:{node.lineno}: {node.name}: {lines} lines: decide above, do below"
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name == "print" and not where.startswith("cli/"):
                yield f"{where}:{node.lineno}: print only in cli/; elsewhere log"
            rule = CALLS.get(name)
            if rule and not (rule[0] and where.startswith(rule[0])):
                yield f"{where}:{node.lineno}: {name}: use {rule[1]}"


def test_there_is_something_to_look_at() -> None:
    assert len(MODULES) > 20


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_a_module_keeps_the_style(path: Path) -> None:
    if place(path) in STANDALONE:
        found = [f for f in findings(path) if "print" not in f and ": use " not in f]
    else:
        found = list(findings(path))
    assert found == []


def test_a_broad_except_gives_its_reason_on_the_line() -> None:
    bare = [
        f"{place(path)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"except (Base)?Exception\b", line)
        and not re.search(r"#(?! noqa: BLE001$).*\w+\W+\w+\W+\w+", line)
    ]
    assert bare == []


def test_a_rule_has_its_test_file() -> None:
    # Stages and plans are the files of controllers/X without I/O; controller.py is their shell.
    missing = []
    for path in sorted((SOURCE / "controllers").glob("*/*.py")):
        if path.name in {"__init__.py", "controller.py"} or path.stem.startswith("_"):
            continue
        room = path.parent.name
        names = {p.stem for p in (ROOT / "tests").rglob("test_*.py") if room in p.parts}
        if not any(path.stem in name for name in names):
            missing.append(f"controllers/{room}/{path.name}")
    assert missing == []


def test_no_work_is_left_behind_in_the_code() -> None:
    words = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError|INTERFACE DRAFT)\b")
    left = [
        f"{place(path)}:{number}: {line.strip()}"
        for path in MODULES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if words.search(line)
    ]
    assert left == []


def test_no_path_of_a_machine_and_no_registry_is_named() -> None:
    files = [ROOT / "Makefile", ROOT / "pyproject.toml", *ROOT.glob("requirements*"), *MODULES]
    found = [
        f"{path.name}: {line.strip()[:80]}"
        for path in files
        for line in path.read_text().splitlines()
        if re.search(r"pypi\.org|pythonhosted|index-url|[\"' =(]/(work|root)/", line)
    ]
    assert found == []
