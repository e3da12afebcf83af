"""The planted defects fit today's product, and the hunt is made on the copy that has one.

All hunts: `make mutants`. `.ci/run` makes one of them: it plays seeds, which takes too long here.
"""

import re
from pathlib import Path
from unittest.mock import ANY

import pytest

from tests.simulation.faults import KINDS
from tests.simulation.mutants import run
from tests.simulation.mutants.catalogue import MUTANTS
from tests.simulation.mutants.hunt import check_import
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.workshop import ROOT, Found, changed, hunt, planted, text_of

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


@pytest.mark.parametrize("page", ["docs/simulation.md", ".ci/run"])
def test_the_one_that_is_asked_for_is_there(page: str) -> None:
    (asked,) = re.findall(r"--only '([^']+)'", (ROOT / page).read_text())
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


def test_a_hunt_imports_the_copy_and_ends_with_an_answer() -> None:
    assert hunt(MUTANTS[0], first=0, end=0) == Found(None, seeds=0, cpu_s=ANY)


def test_a_hunt_that_imports_another_product_says_nothing_about_a_defect(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="was imported from"):
        check_import(tmp_path, MUTANTS[0].file)
