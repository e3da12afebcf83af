"""GitHub's limits on REST calls, per credential and window, in its three forms of saying no."""

import math
from dataclasses import dataclass

from runnerscale.fake_github.options import Options, RateLimitForm
from runnerscale.fake_github.refusals import Refused

CREDENTIALS_MAX = 10_000


@dataclass(slots=True)
class _Window:
    ends_s: float
    used: int = 0


class RateLimit:
    """Counts calls in fixed windows."""

    def __init__(self, options: Options) -> None:
        """Off unless `options.rate_limit_calls` is set."""
        self._calls = options.rate_limit_calls
        self._window_s = options.rate_limit_window_s
        self._form = options.rate_limit_form
        self._windows: dict[str, _Window] = {}

    def count(self, credential: str, now_s: float) -> dict[str, str]:
        """Count a call; the headers that GitHub puts on the answer.

        Raises:
            Refused: 403 or 429 with the headers that say how long to wait.
        """
        if not self._calls:
            return {}
        window = self._windows.get(credential)
        if window is None or window.ends_s <= now_s:
            while len(self._windows) >= CREDENTIALS_MAX:
                self._windows.pop(next(iter(self._windows)))
            window = self._windows[credential] = _Window(now_s + self._window_s)
        if window.used >= self._calls:
            raise self._refusal(window, now_s)
        window.used += 1
        return self._headers(window)

    def _headers(self, window: _Window) -> dict[str, str]:
        return {
            "x-ratelimit-limit": str(self._calls),
            "x-ratelimit-remaining": str(max(0, self._calls - window.used)),
            "x-ratelimit-reset": str(math.ceil(window.ends_s)),
        }

    def _refusal(self, window: _Window, now_s: float) -> Refused:
        wait_s = str(max(1, math.ceil(window.ends_s - now_s)))
        if self._form is RateLimitForm.PRIMARY:
            headers = tuple(self._headers(window).items())
            return Refused(403, "", "API rate limit exceeded.", headers=headers)
        status = 429 if self._form is RateLimitForm.TOO_MANY else 403
        message = "You have exceeded a secondary rate limit."
        return Refused(status, "", message, headers=(("Retry-After", wait_s),))
