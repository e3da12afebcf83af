import json
from typing import Any

import pytest

from runnerscale.core.secret import SecretText
from runnerscale.credentials.record import (
    BOTH,
    NEITHER,
    InvalidRecord,
    NoRecord,
    Record,
    credentials_of,
    record_of_secret,
    record_of_vault,
)
from runnerscale.scaleset.credentials import app_credentials, personal_access_token
from runnerscale.scaleset.errors import InvalidCredentials
from tests.unit.credentials.cluster import base64_of
from tests.unit.scaleset.test_scaleset_credentials import PKCS8

APP = {
    "github_app_id": "1",
    "github_app_installation_id": "10",
    "github_app_private_key": PKCS8,
}
TOKEN = {"github_token": "asdf"}


def of_secret(values: dict[str, str]) -> Record:
    return record_of_secret(base64_of(values))


def of_vault(values: Any) -> Record:
    return record_of_vault(SecretText(json.dumps(values)))


def as_vault(values: dict[str, str]) -> dict[str, Any]:
    key = "github_app_installation_id"
    return {**values, **({key: int(values[key])} if key in values else {})}


@pytest.mark.behaviour("C1 T180", "C2 T173")
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, NEITHER),
        (TOKEN | APP, BOTH),
        ({k: v for k, v in APP.items() if k != "github_app_id"}, NEITHER),
        ({k: v for k, v in APP.items() if k != "github_app_installation_id"}, NEITHER),
        (APP | {"github_app_private_key": ""}, NEITHER),
        (APP | {"github_app_installation_id": "0"}, NEITHER),
        ({"github_token": " \n"}, NEITHER),
    ],
)
def test_a_record_must_be_one_thing_and_whole(values: dict[str, str], said: str) -> None:
    for attempt in (lambda: of_secret(values), lambda: of_vault(as_vault(values))):
        with pytest.raises(InvalidRecord) as caught:
            attempt()
        assert str(caught.value) == said
        assert isinstance(caught.value, NoRecord) is (said == NEITHER)


@pytest.mark.behaviour("C2 T166")
@pytest.mark.parametrize("app_id", ["1", "Iv23f8doAlphaNumer1c"])
def test_an_app_without_its_key_is_nobody(app_id: str) -> None:
    with pytest.raises(NoRecord, match="no credentials provided"):
        of_vault({"github_app_id": app_id, "github_app_installation_id": 10})


@pytest.mark.behaviour("C2 T167")
def test_a_token_beside_a_whole_app_is_too_much() -> None:
    with pytest.raises(InvalidRecord, match="should only provide one"):
        of_vault(as_vault(APP | TOKEN))


@pytest.mark.behaviour("C1 T180", "C1 T181", "C2 T173")
def test_a_token_and_an_app_are_read_from_both_forms() -> None:
    assert of_secret(TOKEN) == of_vault(TOKEN) == Record(token=SecretText("asdf"))
    app = of_secret(APP)
    assert app == of_vault(as_vault(APP))
    assert (app.token, app.app_id, app.app_installation_id) == (None, "1", 10)
    assert credentials_of(app) == app_credentials("1", 10, PKCS8)
    assert credentials_of(of_secret(TOKEN)) == personal_access_token("asdf")
    assert "PRIVATE" not in repr(app) and "asdf" not in repr(of_secret(TOKEN))


@pytest.mark.behaviour("C2 T173")
def test_a_token_beats_parts_of_an_app() -> None:
    partly = TOKEN | {"github_app_id": "1", "github_app_installation_id": "10"}
    assert of_secret(partly) == of_vault(as_vault(partly)) == Record(token=SecretText("asdf"))


@pytest.mark.behaviour("C2 T174")
def test_an_installation_id_is_a_number_in_each_forms_own_way() -> None:
    for digits in ("abc", "1.5", "٣", "--1", "1_0"):
        with pytest.raises(InvalidRecord, match="github_app_installation_id is not an integer"):
            of_secret(APP | {"github_app_installation_id": digits})
    for wrong in ("10", 1.5, True, [10]):
        with pytest.raises(InvalidRecord, match="is not a number"):
            of_vault(APP | {"github_app_installation_id": wrong})
    assert of_secret(APP | {"github_app_installation_id": " 10\n"}).app_installation_id == 10


@pytest.mark.parametrize("text", ["", "hush", "[]", "null", '"hush"', "[" * 5000])
def test_a_vault_item_is_a_json_object_and_never_quoted(text: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        record_of_vault(SecretText(text))
    assert "hush" not in str(caught.value)


def test_a_member_of_another_type_is_told_and_a_null_is_absent() -> None:
    with pytest.raises(InvalidRecord, match="github_token in the vault item is not a string"):
        of_vault({"github_token": 5})
    assert of_vault({"github_token": "t", "github_app_id": None}).token == SecretText("t")


@pytest.mark.parametrize("data", [{"github_token": "%%%"}, {"github_token": "/w=="}])
def test_a_value_that_is_no_text_is_told(data: dict[str, str]) -> None:
    with pytest.raises(InvalidRecord, match="github_token is not text in base64"):
        record_of_secret(data)


def test_stray_blanks_are_taken_off_and_told() -> None:
    # Issue log 82.
    record = of_secret({"github_token": " asdf\n"})
    assert record.token == SecretText("asdf")
    assert record.notes == ("blanks around github_token were taken off",)
    assert of_secret(TOKEN).notes == ()


def test_a_key_that_is_none_is_told_when_it_is_to_be_used() -> None:
    record = of_secret(APP | {"github_app_private_key": "hush"})
    with pytest.raises(InvalidCredentials, match="failed to parse RSA private key") as caught:
        credentials_of(record)
    assert "hush" not in str(caught.value)
