"""How long to wait before trying again: growing, capped, and never in step with others."""

from dataclasses import dataclass

from runnerscale.core.randomness import Random

ATTEMPT_MAX = 64  # past this the cap is reached for any sensible factor; keeps the power finite


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first_s`, then `factor` times longer each time, at most `cap_s`.

    `jitter` is the part of the delay, 0 to 1, that is drawn by chance: 0.5 means between
    half of the delay and all of it, so that many who fail together do not return together.
    """

    first_s: float
    cap_s: float
    factor: float = 2.0
    jitter: float = 0.5

    def delay_s(self, attempt: int, random: Random | None = None) -> float:
        """Seconds to wait after failure number `attempt` (the first is 0).

        Without `random` the answer is the undisturbed delay, for rules that must be pure.
        """
        power = min(max(attempt, 0), ATTEMPT_MAX)
        full_s = min(self.first_s * self.factor**power, self.cap_s)
        if random is None or self.jitter <= 0:
            return full_s
        return full_s * (1 - self.jitter * random.random())
