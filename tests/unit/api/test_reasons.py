"""The catalogue of reasons, and that none is without its page."""

import re
from pathlib import Path

import pytest

from runnerscale.api.catalogue import Severity, as_markdown
from runnerscale.api.reasons import Reason, Trouble, trouble

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_has_a_heading_and_all_it_should_say(reason: Reason) -> None:
    assert f"\n### {reason}\n" in PAGE
    assert re.fullmatch(r"[A-Z][A-Za-z]+", reason)
    assert isinstance(reason.severity, Severity)
    for text in (reason.meaning, reason.what_we_do, reason.what_you_can_do):
        assert text[0].isalpha()
        assert text.endswith(".")
        assert len(text) > 5


def test_the_page_is_what_the_catalogue_says() -> None:
    assert as_markdown(Reason) in PAGE


def test_there_is_no_heading_for_a_reason_that_is_gone() -> None:
    headings = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)
    assert headings == sorted(Reason)


def test_a_reason_is_its_word() -> None:
    assert Reason("QuotaExceeded") is Reason.QUOTA_EXCEEDED
    assert str(Reason.QUOTA_EXCEEDED) == "QuotaExceeded"
    assert f"{Reason.QUOTA_EXCEEDED}" == "QuotaExceeded"


def test_the_words_that_arc_uses_are_kept() -> None:
    assert {"InvalidPod", "Outdated"} <= set(Reason)


def test_a_trouble_speaks_in_sentences_and_knows_only_the_catalogue() -> None:
    told = Trouble(Reason.QUOTA_EXCEEDED, "EphemeralRunner a/b", "it was refused", "Raise it")
    assert str(told) == "EphemeralRunner a/b: it was refused. Raise it."
    assert told.message == "it was refused. Raise it."
    with pytest.raises(ValueError, match="NoSuchReason"):
        Trouble("NoSuchReason", "a", "b", "c")  # type: ignore[arg-type]
    assert Trouble("OOMKilled", "a", "b", "c").reason is Reason.OUT_OF_MEMORY  # type: ignore[arg-type]


def test_the_catalogues_own_remedy() -> None:
    told = trouble(Reason.OUTDATED, about="x", happened="it was refused.")
    assert told.message == "it was refused. Put a newer runner image into the template."


def test_what_comes_from_outside_is_one_line_and_leaves_room_for_the_remedy() -> None:
    told = trouble(Reason.INVALID_POD, about="x", happened="a\nb\x1b[2J" + "c" * 5000)
    assert told.happened.startswith("a\\nb\\x1b[2Jccc")
    assert len(told.happened) == 800
    assert told.message.endswith(Reason.INVALID_POD.what_you_can_do)
    assert len(told.message) <= 1024  # of a condition


@pytest.mark.parametrize(
    "reason", [Reason.RUNNER_FAILED, Reason.EXITED_WITHOUT_JOB, Reason.INIT_CONTAINER_FAILED]
)
def test_nobody_is_sent_to_the_log_of_a_pod_that_is_gone(reason: Reason) -> None:
    assert "pod is gone" in reason.what_you_can_do
    assert "kubectl logs" not in reason.what_you_can_do


@pytest.mark.parametrize("reason", list(Reason))
def test_a_remedy_is_a_sentence_that_begins_with_what_to_do(reason: Reason) -> None:
    # It stands behind what happened: "the session was lost. Nothing, unless ..." reads oddly.
    verbs = (
        "Cancel Check Compare Correct Create Delete Find Give Install Keep Look Lower Put Raise "
        "Read Renew Report See Show Stop Upgrade Use Wait"
    )
    first = re.split(r"[ :]", reason.what_you_can_do)[0]
    assert first in verbs.split()
    assert ". " not in reason.meaning


def test_what_happened_is_told_apart_from_the_catalogues_remedy() -> None:
    told = trouble(Reason.OUTDATED, about="x", happened="it was refused")
    assert Reason.OUTDATED.happened_in(told.message) == "it was refused"
    assert Reason.OUTDATED.happened_in("it was refused.") == "it was refused"
