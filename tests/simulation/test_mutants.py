"""The planted defects fit today's product; one of them is really planted and noticed.

All of them: `make mutants`.
"""

import re
from pathlib import Path

import pytest

from tests.simulation.faults import KINDS
from tests.simulation.mutants import run
from tests.simulation.mutants.catalogue import MUTANTS
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.workshop import changed, hunt, planted, text_of

QUICK = "runner: the JIT config is in the log"
AT_LEAST = 16
NAMES = [mutant.name for mutant in MUTANTS]


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= AT_LEAST
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_its_place_is_there_once_and_the_changed_file_compiles(mutant: Mutant) -> None:
    text = text_of(mutant)
    defect = changed(mutant, text)
    assert defect != text
    compile(defect, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_what_it_needs_is_a_fault_that_is_drawn(mutant: Mutant) -> None:
    assert set(mutant.needs) <= set(KINDS)


def test_a_name_that_no_defect_has_is_told_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["--only", "no such defect"])
    told = capsys.readouterr().err
    assert "no planted defect has 'no such defect' in its name" in told
    assert all(name in told for name in NAMES)


def test_the_one_that_the_page_asks_for_is_there() -> None:
    page = (Path(__file__).parents[2] / "docs/simulation.md").read_text()
    (asked,) = re.findall(r"--only '([^']+)'", page)
    assert any(asked in name for name in NAMES)


def test_only_the_copy_has_the_defect() -> None:
    mutant = MUTANTS[0]
    before = text_of(mutant)
    with planted(mutant) as folder:
        copy = folder / "runnerscale" / mutant.file
        assert mutant.new in copy.read_text()
        assert not list(Path(copy.parent, "__pycache__").glob(f"{copy.stem}.*"))
        assert text_of(mutant) == before
    assert not folder.exists()


@pytest.mark.timeout(300)
def test_a_planted_defect_is_noticed_and_not_without_it() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == QUICK)
    found = hunt(mutant, first=0, end=3)
    assert found.seed is not None
    assert found.rule == mutant.seen_by
    assert hunt(None, first=found.seed, end=found.seed + 1).seed is None
