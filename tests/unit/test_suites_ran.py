"""CI's question to a test report: did every suite run, and was nothing skipped?"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import suites_ran  # noqa: E402 - the path comes first

RAN = '<testcase classname="tests.unit.api.test_phase" name="test_a"/>'
SKIPPED = (
    '<testcase classname="tests.plan.test_b" name="test_b"><skipped message="no Go"/></testcase>'
)


def report(folder: Path, *cases: str) -> Path:
    path = folder / "report.xml"
    path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return path


def test_a_suite_that_ran_is_counted(tmp_path: Path) -> None:
    counts, wrong = suites_ran.complaints(report(tmp_path, RAN, RAN), ["unit"])
    assert counts["unit"] == 2
    assert wrong == []


def test_a_suite_without_a_test_is_a_complaint(tmp_path: Path) -> None:
    _, wrong = suites_ran.complaints(report(tmp_path, RAN), ["unit", "kubernetes"])
    assert wrong == ["no test of tests/kubernetes ran"]


def test_a_skipped_test_is_a_complaint_and_does_not_count(tmp_path: Path) -> None:
    _, wrong = suites_ran.complaints(report(tmp_path, RAN, SKIPPED), ["unit", "plan"])
    assert wrong == [
        "tests.plan.test_b.test_b was skipped: no Go",
        "no test of tests/plan ran",
    ]
