"""What is printed after an installation."""

import pytest

from .chart import KUBERNETES, notes
from .test_runner_set_spec import CAMEL_VAULT

VAULT = {"type": "azure_key_vault", "azureKeyVault": CAMEL_VAULT}


def test_it_says_how_to_use_the_set_and_how_to_look_at_it() -> None:
    text = notes({"runnerScaleSetName": "my_set", "namespaceOverride": "other"})
    assert "runs-on: my_set" in text
    assert "kubectl get autoscalingrunnersets -n other my-set" in text
    assert "About these values" not in text
    assert not text.endswith("\n\n")


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"maxRunners": 2.7}, "maxRunners 2.7 was cut to 2."),
        ({"maxRunners": 0}, "this set never runs a job"),
        ({"keyVault": {"azureKeyVault": CAMEL_VAULT}}, "keyVault has no type and is not used"),
        ({"keyVault": VAULT}, "the credentials in githubConfigSecret are not"),
        (
            {"containerMode": {**KUBERNETES, "type": "dind"}},
            "kubernetesModeWorkVolumeClaim is only used with containerMode.type kubernetes",
        ),
        (
            {"containerMode": {"kubernetesModeAdditionalRoleRules": [{"verbs": ["get"]}]}},
            "kubernetesModeAdditionalRoleRules is not used",
        ),
    ],
)
def test_what_is_accepted_and_yet_odd_is_named(extra: dict[str, object], said: str) -> None:
    assert said in notes(extra)


def test_nothing_is_named_when_nothing_is_odd() -> None:
    for extra in ({"maxRunners": 2}, {"containerMode": KUBERNETES}, {"maxRunners": 5.0}):
        assert "About these values" not in notes(extra)
    assert "not used" not in notes({"keyVault": VAULT, "githubConfigSecret": "item"})


def test_unknown_values_are_named_with_what_was_probably_meant_unless_switched_off() -> None:
    text = notes({"maxRuners": 5})
    assert "maxRuners (did you mean maxRunners?)" in text
    assert "maxRuners" not in notes({"maxRuners": 5, "additions": {"unknownValueNotes": False}})


def test_no_secret_is_in_the_notes() -> None:
    assert "gh_token12345" not in notes({"keyVault": VAULT, "maxRuners": 5})
