"""Which runner, and its registration: the two values that actions and snapshots share."""

from dataclasses import dataclass

from runnerscale.core.secret import SecretText


@dataclass(frozen=True, slots=True)
class Ref:
    """One EphemeralRunner object; its pod, Secret and GitHub's runner have the same name."""

    namespace: str
    name: str
    uid: str  # a namesake born later is not ours to touch

    @property
    def key(self) -> str:
        """As work queue and caches know it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Jit:
    """A registration at GitHub, with the start-up configuration that only its runner may use."""

    runner_id: int
    runner_name: str
    scale_set_id: int  # as GitHub returned it; 0 if it did not say
    config: SecretText
