"""Every conformance case gives the transcript that a real kube-apiserver gave.

The recorded transcripts (`golden/`) come from kube-apiserver 1.36.3. With
RUNNERSCALE_CONFORMANCE_URL the cases run against that server instead, and
RUNNERSCALE_CONFORMANCE_RECORD=1 writes down what it says.
"""

import json
import os
from pathlib import Path

import pytest

from tests.conformance import cases_flows, cases_lists, cases_objects, cases_rules
from tests.conformance.conftest import Conformance, elsewhere
from tests.conformance.transcript import Case

GOLDEN = Path(__file__).parent / "golden"
CASES = [*cases_objects.CASES, *cases_lists.CASES, *cases_rules.CASES, *cases_flows.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_the_server_answers_as_kubernetes_does(conformance: Conformance, case: Case) -> None:
    real = elsewhere() is not None
    if case.controllers and real and not os.environ.get("RUNNERSCALE_CONFORMANCE_CONTROLLERS"):
        pytest.skip("no controllers beside that server")
    found = await conformance.transcript(case)
    path = GOLDEN / f"{case.name}.json"
    if os.environ.get("RUNNERSCALE_CONFORMANCE_RECORD"):
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        return
    wanted = json.loads(path.read_text())
    for line, expected in zip(found, wanted, strict=True):
        assert line == expected
