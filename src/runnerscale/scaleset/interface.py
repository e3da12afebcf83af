"""What the layers above may ask of the scale-set service: two protocols.

`client.py` and `session.py` are the real things; a test may hand in anything that looks
the same. All calls raise only `scaleset.errors`; `timeout_s` bounds the whole call, waits
between attempts included.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from runnerscale.scaleset.limits import CLEAN_UP, FRESH_DEMAND
from runnerscale.scaleset.model import (
    JitConfig,
    Message,
    RunnerGroup,
    RunnerReference,
    RunnerScaleSet,
    Statistics,
)

CALL_S = 60.0  # a call's time unless its caller says otherwise


class SessionApi(AbstractAsyncContextManager["SessionApi"], Protocol):
    """An open message session; see `session.MessageSession`."""

    @property
    def statistics(self) -> Statistics:
        """Of the last session object or envelope."""
        ...

    @property
    def opening(self) -> Statistics:
        """Of the last session object: another one each time it is opened or renewed."""
        ...

    @property
    def generation(self) -> int:
        """Which session this is: 1, and one more each time it was re-created in place."""
        ...

    async def poll(self, last_message_id: int, max_capacity: int) -> Message | None:
        """The next message, or None when none came within the service's hold time."""
        ...

    async def acknowledge(self, message_id: int) -> None:
        """Delete a message: it will not come again."""
        ...

    async def acquire_jobs(self, request_ids: Sequence[int]) -> list[int]:
        """Claim jobs; which ones we got."""
        ...

    async def acquirable_jobs(self) -> list[int]:
        """Jobs that are offered and not claimed; none where the service assigns by itself."""
        ...

    async def close(self) -> None:
        """Give the session back; at most 10 s, never raises."""
        ...


class ScaleSetApi(Protocol):
    """The calls about scale sets and runners; see `client.ScaleSetClient`."""

    async def get_runner_group(self, name: str, *, timeout_s: float = CALL_S) -> RunnerGroup: ...

    async def find_scale_set(
        self, name: str, runner_group_id: int, *, timeout_s: float = CALL_S
    ) -> RunnerScaleSet | None: ...

    async def get_scale_set(
        self, scale_set_id: int, *, timeout_s: float = CALL_S
    ) -> RunnerScaleSet | None: ...

    async def create_scale_set(
        self,
        name: str,
        runner_group_id: int,
        *,
        labels: Sequence[str] = (),
        disable_update: bool = True,
        timeout_s: float = CALL_S,
    ) -> RunnerScaleSet: ...

    async def update_scale_set(
        self,
        scale_set_id: int,
        *,
        name: str | None = None,
        runner_group_id: int | None = None,
        labels: Sequence[str] | None = None,
        disable_update: bool | None = None,
        timeout_s: float = CALL_S,
    ) -> RunnerScaleSet: ...

    async def delete_scale_set(self, scale_set_id: int, *, timeout_s: float = CALL_S) -> None: ...

    async def generate_jit_config(
        self,
        scale_set_id: int,
        runner_name: str,
        *,
        work_folder: str = "",
        urgency: int = FRESH_DEMAND,
        timeout_s: float = CALL_S,
    ) -> JitConfig: ...

    async def get_runner(
        self, runner_id: int, *, urgency: int = CLEAN_UP, timeout_s: float = CALL_S
    ) -> RunnerReference: ...

    async def find_runner(
        self, runner_name: str, *, urgency: int = CLEAN_UP, timeout_s: float = CALL_S
    ) -> RunnerReference | None: ...

    async def remove_runner(
        self, runner_id: int, *, urgency: int = CLEAN_UP, timeout_s: float = CALL_S
    ) -> None: ...

    def open_session(self, scale_set_id: int, owner_name: str) -> SessionApi: ...
