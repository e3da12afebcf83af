"""The pages for people, held to what is there: links, targets, flags, paths, names.

What a sentence means no test can tell; whether the thing it names exists, these do. Generated
pages are compared with their sources by `make check`.
"""

import itertools
import re
from pathlib import Path

import pytest

from runnerscale.api import conditions
from runnerscale.api.phase import RunnerPhase
from runnerscale.api.reasons import Reason
from runnerscale.app.demo_faults import FAULTS
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.cli.controller_command import controller_flags
from runnerscale.cli.people import app
from runnerscale.fake_github.presets import PRESETS

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "runnerscale"
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
ADRS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
ADR_PARTS = ["Situation", "Choice", "What we gave up", "What would make us think again"]
ADR_LINES_MAX = 40  # one screen
ARCHITECTURE_LINES_MAX = 110  # two screens

# Pages that name files of one room by their bare names, and that room.
ROOM_OF = {
    "docs/runner-life.md": "controllers/ephemeral_runner",
    "docs/fake-github.md": "fake_github",
    "docs/kube-runtime.md": "kube",
}
# Words in `CamelCase` in docs/runner-life.md that are Kubernetes' own.
KUBERNETES_WORDS = {"Always", "Never", "Secret", "Pod"}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def quoted(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(page))


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def flags_of(command: str) -> set[str]:
    if command == "controller":
        return {f"--{name}" for name in controller_flags().names} | {"--help"}
    if command == "listener":
        return {"--debug", "--help"}
    # A group such as `values` has its flags in its commands.
    below = [app[command][name] for name in app[command] if not name.startswith("-")]
    arguments = [a for c in below or [app[command]] for a in c.assemble_argument_collection()]
    return {flag for argument in arguments for flag in argument.names} | {"--debug", "--help"}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+://", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            dead.append(target)
    assert dead == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    found, look = set(), [ROOT / "README.md"]
    while look:
        page = look.pop()
        if page in found or page.suffix != ".md" or not page.exists():
            continue
        found.add(page)
        links = re.findall(r"\]\(([^)#\s]+)", prose(page))
        look += [(page.parent / link).resolve() for link in links]
    assert [named(page) for page in PAGES if page not in found] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    words = re.findall(r"(?:`|^\$ |; )make ([a-z-]+)", page.read_text(), flags=re.MULTILINE)
    assert [word for word in words if word not in targets] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_and_flag_that_is_named_exists(page: Path) -> None:
    text = page.read_text()
    uses = re.findall(r"(?:`|\$ |bin/|\| )runnerscale ([a-z][a-z-]*)([^`\n|&]*)", text)
    uses += [("demo", words) for words in re.findall(r'make demo ARGS="([^"]*)"', text)]
    known = {name for name in app if not name.startswith("-")}
    odd = [command for command, _ in uses if command not in known]
    for command, words in uses:
        if command in known:
            flags = flags_of(command)
            given = re.findall(r"(?<![\w-])--[a-z][a-z-]*", words)
            odd += [f"{command} {flag}" for flag in given if flag not in flags]
    assert odd == []


def test_every_command_has_its_heading() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    known = [name for name in app if not name.startswith("-")]
    assert [name for name in known if not re.search(f"\n## runnerscale {name}[ \n]", text)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_fault_of_the_demo_that_is_named_exists(page: Path) -> None:
    names = {fault.name for fault in FAULTS} | {"NAME"}
    used = re.findall(r"--fault ([\w-]+)@", page.read_text())
    assert [name for name in used if name not in names] == []


def test_every_fault_of_the_demo_has_its_row_with_the_reason_that_is_expected() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    rows = dict(re.findall(r"^\| `.*--fault ([\w-]+)@[^`]*` \| (.*)$", text, flags=re.MULTILINE))
    for fault in FAULTS:
        words = rows[fault.name].split(" | ")[1]
        assert words.startswith(f"`{fault.reason}`" if fault.reason else "none"), fault.name


def test_the_page_of_the_pretended_github_lists_its_presets() -> None:
    part = (ROOT / "docs" / "fake-github.md").read_text().partition("\n## Faults\n")[2]
    rows = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)}
    assert set(PRESETS) <= listed


def test_every_reason_has_its_heading_and_no_heading_is_without_one() -> None:
    part = (ROOT / "docs" / "troubleshooting.md").read_text().partition("\n## The reasons\n")[2]
    headings = re.findall(r"^### (\w+)$", part, flags=re.MULTILINE)
    assert sorted(headings) == sorted(str(reason) for reason in Reason)


def test_words_for_people_in_the_pages_are_those_of_the_code() -> None:
    known = {str(reason) for reason in Reason} | {str(phase) for phase in RunnerPhase}
    known |= {
        value for value in vars(conditions).values() if isinstance(value, str)
    } | KUBERNETES_WORDS
    pages = [ROOT / "docs" / "runner-life.md", ROOT / "docs" / "troubleshooting.md"]
    words = {word for page in pages for word in quoted(page)}
    camel = {word for word in words if re.fullmatch(r"[A-Z][a-z]+\w*", word)}
    assert sorted(camel - known) == []


@pytest.mark.parametrize("path", ADRS, ids=named)
def test_a_decision_has_number_verdict_and_its_four_parts_on_one_screen(path: Path) -> None:
    text = path.read_text()
    number, _, verdict = path.stem.partition("-")
    assert re.fullmatch(r"\d{4}", number) and re.fullmatch(r"[a-z0-9-]+", verdict)
    assert text.startswith(f"# {int(number)}. ")
    assert re.findall(r"^\*\*(.+?)\.\*\* \S", text, flags=re.MULTILINE) == ADR_PARTS
    assert len(text.splitlines()) <= ADR_LINES_MAX


def test_decisions_are_numbered_without_a_gap_and_all_in_the_list() -> None:
    assert [int(path.name[:4]) for path in ADRS] == list(range(1, len(ADRS) + 1))
    listed = re.findall(r"\]\(([^)]+)\)", (ROOT / "docs" / "adr" / "README.md").read_text())
    assert listed == [path.name for path in ADRS]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_file_that_is_named_exists(page: Path) -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build"}  # made by runs
    home = SOURCE / ROOM_OF.get(named(page), "")
    missing = []
    for words in quoted(page):
        path = words.partition("::")[0].rstrip("/")
        first = path.partition("/")[0]
        if not re.fullmatch(r"[\w./-]+", path):
            continue  # a pattern such as controllers/<kind>/<rule>.py, or no path at all
        if "/" in words and first in tops:
            places = [ROOT / path]
        elif "/" in words and first in rooms:
            places = [SOURCE / path]
        elif re.fullmatch(r"[a-z_]+\.py", path) and named(page) in ROOM_OF:
            places = [home / path]
        elif re.fullmatch(r"[a-z_]+\.py", path):
            places = list(SOURCE.rglob(path)) or [SOURCE / path]
        else:
            continue
        if not any(place.exists() for place in places):
            missing.append(words)
    assert missing == []


def test_every_variable_and_metric_that_is_named_is_in_the_code() -> None:
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests" / "conformance").rglob("*.py")]
    code = "\n".join(path.read_text() for path in files) + (ROOT / "Makefile").read_text()
    variable = r"\b(?:RUNNERSCALE|ACTIONS_RUNNER|LISTENER|CONTROLLER)_[A-Z_]+[A-Z]\b"
    metric = r"(?<=`)(?:runnerscale|controller_runtime|gha|workqueue)_[a-z_]+[a-z]"
    names = {
        name for page in PAGES for name in re.findall(f"{variable}|{metric}", page.read_text())
    }
    assert len(names) > 5  # the pattern still finds some
    missing = [name for name in names if name.removesuffix("_total") not in code]
    assert missing == []


def test_the_picture_of_the_rooms_shows_every_import() -> None:
    picture = (ROOT / "docs" / "architecture.md").read_text().partition("flowchart TD\n")[2]
    drawn: set[tuple[str, str]] = set()
    for line in picture.partition("```")[0].splitlines():
        steps = [re.findall(r"\w+", step) for step in line.split("-->")]
        for sources, targets in itertools.pairwise(steps):
            drawn |= {(source, target) for source in sources for target in targets}
    below = {(room, room) for pair in drawn for room in pair} | drawn
    for _ in drawn:
        below |= {(a, d) for a, b in below for c, d in drawn if b == c}
    imports = {
        (path.relative_to(SOURCE).parts[0], room)
        for path in SOURCE.glob("*/**/*.py")
        for room in re.findall(r"(?:from|import) runnerscale\.(\w+)", path.read_text())
    }
    assert sorted(imports - below) == []
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert rooms == {room for pair in drawn for room in pair}
    rows = set(re.findall(r"^\| `(\w+)/` \|", picture, flags=re.MULTILINE))
    assert rows == rooms


def test_the_architecture_fits_on_two_screens() -> None:
    lines = (ROOT / "docs" / "architecture.md").read_text().splitlines()
    assert len(lines) <= ARCHITECTURE_LINES_MAX


def test_the_example_in_the_repository_is_the_one_that_is_installed() -> None:
    installed = SOURCE / "app" / "example_workflow.yml"
    assert (ROOT / "examples" / "workflow.yml").read_text() == installed.read_text()


def test_every_kind_of_reference_of_the_docstrings_is_explained() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    part = text.partition("## What the references in docstrings mean")[2].partition("\n## ")[0]
    explained = {word for words in re.findall(r"`([^`]+)`", part) for word in words.split()}
    used = set()
    for path in SOURCE.rglob("*.py"):
        used |= set(re.findall(r"[Cc]ontract:? ([A-Za-z][\w-]+\w)", path.read_text()))
    names = {word for word in used if "-" in word or re.fullmatch(r"C\d|Annex|design", word)}
    assert len(names) > 4  # the pattern still finds some
    assert sorted(names - explained) == []


def test_the_example_of_a_runner_set_has_the_version_that_the_controller_expects() -> None:
    example = (ROOT / "examples" / "single-machine" / "runner-set.yaml").read_text()
    assert f"app.kubernetes.io/version: {COMPATIBLE_VERSION} " in example


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_page_names_a_machine(page: Path) -> None:
    found = re.findall(r"(?<![\w.])/(?:work|root|Users|home/(?!runner\b))\S*", page.read_text())
    assert found == []
