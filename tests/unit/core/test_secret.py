"""A secret is never printed by accident."""

import pickle

import pytest

from runnerscale.core.secret import SecretText


def test_no_way_of_printing_shows_it() -> None:
    secret = SecretText("hunter2")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", "%s" % secret, repr([secret])]  # noqa: UP031
    assert not any("hunter2" in text for text in shown)
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_it_can_be_part_of_a_key_and_is_revealed_on_purpose() -> None:
    assert SecretText("a") == SecretText("a") != SecretText("b")
    assert {SecretText("a"): 1}[SecretText("a")] == 1
    assert SecretText("a") != "a"
    assert not SecretText("")
    assert SecretText("a").reveal() == "a"
