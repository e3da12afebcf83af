"""INTERFACE DRAFT, to be filled by the owner of scaleset/: signatures are agreed."""

from collections.abc import Sequence
from typing import Protocol

from runnerscale.scaleset.model import (
    JitConfig,
    Message,
    RunnerGroup,
    RunnerReference,
    RunnerScaleSet,
    Statistics,
)

FRESH_DEMAND = 0  # urgency of JIT configs, sessions, acquires: before ...
CLEAN_UP = 10  # ... removals and look-ups that nobody waits for


class MessageSession(Protocol):
    """An open session; `async with client.open_session(...) as session`. Renews its token and
    re-creates itself in place when the service lost it (cursor back to 0)."""

    @property
    def statistics(self) -> Statistics:
        """Of the last session object or envelope."""
        ...

    async def poll(self, last_message_id: int, max_capacity: int) -> Message | None: ...

    async def acknowledge(self, message_id: int) -> None: ...

    async def acquire_jobs(self, request_ids: Sequence[int]) -> list[int]: ...

    async def close(self) -> None: ...


class ScaleSetClient(Protocol):
    """All calls raise only `scaleset.errors`. `timeout_s` bounds the whole call."""

    async def get_runner_group(self, name: str, *, timeout_s: float = 60.0) -> RunnerGroup: ...

    async def find_scale_set(
        self, name: str, runner_group_id: int, *, timeout_s: float = 60.0
    ) -> RunnerScaleSet | None: ...

    async def get_scale_set(
        self, scale_set_id: int, *, timeout_s: float = 60.0
    ) -> RunnerScaleSet | None:
        """None: the service answered `null`; a 404 raises ScaleSetNotFound."""
        ...

    async def create_scale_set(
        self,
        name: str,
        runner_group_id: int,
        *,
        labels: Sequence[str] = (),
        disable_update: bool = True,
        timeout_s: float = 60.0,
    ) -> RunnerScaleSet:
        """`labels` empty: one label, the name. A lost answer is resolved by lookup inside."""
        ...

    async def update_scale_set(
        self,
        scale_set_id: int,
        *,
        name: str | None = None,
        runner_group_id: int | None = None,
        labels: Sequence[str] | None = None,
        disable_update: bool | None = None,
        timeout_s: float = 60.0,
    ) -> RunnerScaleSet: ...

    async def delete_scale_set(self, scale_set_id: int, *, timeout_s: float = 60.0) -> None: ...

    async def generate_jit_config(
        self, scale_set_id: int, runner_name: str, *, work_folder: str = "", timeout_s: float = 60.0
    ) -> JitConfig: ...

    async def get_runner(self, runner_id: int, *, timeout_s: float = 60.0) -> RunnerReference:
        """Raises RunnerNotFound."""
        ...

    async def find_runner(
        self, runner_name: str, *, timeout_s: float = 60.0
    ) -> RunnerReference | None: ...

    async def remove_runner(
        self, runner_id: int, *, urgency: int = CLEAN_UP, timeout_s: float = 60.0
    ) -> None:
        """Raises RunnerNotFound, JobStillRunning."""
        ...

    def open_session(self, scale_set_id: int, owner_name: str) -> MessageSession:
        """Not opened until entered (`async with`)."""
        ...
