"""The two values that actions and snapshots share."""

from tests.plan.ephemeral_runner.values import JIT, REF


def test_a_ref_is_known_to_queue_and_caches_by_its_key() -> None:
    assert REF.key == "ns/runner-a"


def test_a_jit_config_is_not_printed_by_accident() -> None:
    assert "very-secret" not in f"{JIT} {JIT!r}"
