"""Every row of the contract's table 7.4."""

import pytest

from runnerscale.listener.workflow_ref import Workflow, parse

PREFIX = "owner/repo/.github/workflows/"
ROWS = [
    ("blank.yml@refs/heads/main", "blank", "heads/main"),
    ("ci-cd.yml@refs/heads/feature/new-feature", "ci-cd", "heads/feature/new-feature"),
    ("deploy.yaml@refs/heads/develop", "deploy", "heads/develop"),
    ("release.yml@refs/tags/v1.0.0", "release", "tags/v1.0.0"),
    ("test.yml@refs/pull/123/merge", "test", "pull/123"),
    ("build.test.yml@refs/heads/main", "build.test", "heads/main"),
    ("build-test_deploy.yml@refs/heads/main", "build-test_deploy", "heads/main"),
    ("test.yml", "", ""),
    ("x.yml@refs/heads/a@b", "", ""),
    ("x.yml@abc123", "x", ""),
    ("x.yml@", "x", ""),
    ("x.yml@refs/pull/12", "x", ""),
    ("x.yml@refs/pull//merge", "x", ""),
    ("x.yml@refs/pull/12/head", "x", "pull/12"),
    ("x.yaml.yml@refs/heads/m", "x", "heads/m"),
    ("x.yml.yaml@refs/heads/m", "x.yml", "heads/m"),
    ("x.YML@refs/heads/m", "x.YML", "heads/m"),
    ("dir/@refs/tags/v1", "dir", "tags/v1"),
]


@pytest.mark.behaviour("C2 T186")
@pytest.mark.parametrize(("ref", "name", "target"), ROWS)
def test_a_ref_is_read_as_the_contract_says(ref: str, name: str, target: str) -> None:
    assert parse(PREFIX + ref) == Workflow(name, target)


@pytest.mark.behaviour("C2 T186")
def test_the_two_odd_inputs() -> None:
    assert parse("") == Workflow()
    assert parse("@refs/heads/main") == Workflow(".", "heads/main")


def test_a_path_of_slashes_only_does_not_break_it() -> None:
    assert parse("//@refs/heads/main") == Workflow("/", "heads/main")
