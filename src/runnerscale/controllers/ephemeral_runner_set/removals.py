"""Asking GitHub to forget runners, in the background.

No pass waits for GitHub: a question goes out here, and when its answer is there the set's key
is queued again. So one set whose GitHub hangs delays neither others nor its own new demand.
Bounded by `scale_down.ASKED_AT_ONCE_MAX` for each set and by the client for each host. What an
answer means is `scale_down.py`'s and `drain.py`'s business.
"""

import asyncio
from collections.abc import Callable

import structlog

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set.memory import Remembered, Word
from runnerscale.controllers.ephemeral_runner_set.snapshot import Removal
from runnerscale.controllers.troubles import github_trouble
from runnerscale.core.clock import Clock
from runnerscale.credentials.place import Clients, GitHubPlace, PlaceTrouble
from runnerscale.scaleset.errors import (
    JobStillRunning,
    RunnerNotFound,
    ScaleSetError,
)
from runnerscale.scaleset.limits import CLEAN_UP

log = structlog.get_logger(__name__)

ASK_BOUND_S = 60.0


class Removals:
    """The questions that are on their way."""

    def __init__(self, clients: Clients, *, clock: Clock, answered: Callable[[str], None]) -> None:
        """`answered` is called with the set's key when an answer has come."""
        self._clients = clients
        self._clock = clock
        self._answered = answered
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many are on their way."""
        return len(self._tasks)

    def ask(
        self,
        key: str,
        remembered: Remembered,
        *,
        about: str,
        uid: str,
        runner_id: int,
        place: GitHubPlace,
    ) -> None:
        """Send one question; its answer goes into what is remembered of the set."""
        remembered.removals[uid] = Word(Removal.ASKED, self._clock.now_s())

        async def work() -> None:
            word = await self._asked(about, runner_id, place)
            if uid in remembered.removals:  # else the runner is gone, and the answer moot
                remembered.removals[uid] = word
            log.info("asked GitHub to forget a runner", runner=about, answer=word.removal.value)
            self._answered(key)

        task = asyncio.get_running_loop().create_task(work(), name=f"forget {about}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what is on its way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _asked(self, about: str, runner_id: int, place: GitHubPlace) -> Word:
        try:
            async with asyncio.timeout(ASK_BOUND_S + 5.0):
                client = await self._clients.client_for(place)
                await client.remove_runner(runner_id, urgency=CLEAN_UP, timeout_s=ASK_BOUND_S)
        except RunnerNotFound:
            return self._word(Removal.FORGOTTEN)
        except JobStillRunning:
            return self._word(Removal.HAS_JOB)
        except (ScaleSetError, PlaceTrouble) as error:
            told = github_trouble(error, about=about)
            return Word(Removal.NO_ANSWER, self._clock.now_s(), told)
        except TimeoutError:
            told = trouble(
                Reason.GITHUB_UNAVAILABLE, about=about, happened=f"no answer in {ASK_BOUND_S:.0f} s"
            )
            return Word(Removal.NO_ANSWER, self._clock.now_s(), told)
        except Exception as error:  # our own bug: the set must hear of it, not wait for ever
            log.exception("asking GitHub failed unexpectedly", runner=about)
            told = trouble(Reason.GITHUB_UNAVAILABLE, about=about, happened=repr(error))
            return Word(Removal.NO_ANSWER, self._clock.now_s(), told)
        return self._word(Removal.FORGOTTEN)

    def _word(self, removal: Removal) -> Word:
        return Word(removal, self._clock.now_s())
