"""Every conformance case gives the transcript that a real kube-apiserver gave.

The transcripts in `golden/` were recorded from kube-apiserver 1.36.3. `make conformance` holds
the embedded server to them, `make conformance-real` that and a real server, so that they
cannot rot. RUNNERSCALE_CONFORMANCE_RECORD=1 with the real server alone records them anew.
"""

import json
import os
from pathlib import Path

import pytest

from tests.conformance import (
    cases_client,
    cases_flows,
    cases_kinds,
    cases_lists,
    cases_objects,
    cases_rules,
)
from tests.conformance.conftest import Conformance
from tests.conformance.transcript import Case

GOLDEN = Path(__file__).parent / "golden"
MODULES = (cases_objects, cases_lists, cases_rules, cases_flows, cases_client, cases_kinds)
CASES = [case for module in MODULES for case in module.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_the_server_answers_as_kubernetes_does(
    conformance: Conformance, case: Case, request: pytest.FixtureRequest
) -> None:
    server = request.node.callspec.params["conformance"]
    request.node.user_properties += [("case", case.name), ("server", server)]
    request.node.user_properties.append(("requests", len(case.steps)))
    found = await conformance.transcript(case)
    path = GOLDEN / f"{case.name}.json"
    if os.environ.get("RUNNERSCALE_CONFORMANCE_RECORD"):
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    for line, expected in zip(found, json.loads(path.read_text()), strict=True):
        assert line == expected


def test_every_recorded_transcript_belongs_to_a_case() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == sorted(c.name for c in CASES)
