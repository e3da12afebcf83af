"""The calls about scale sets, runner groups and runners: what one asks GitHub, in our words.

Each method is one exchange (the contract's section is named in it); tokens, attempts and
deadlines are behind `actions.py`, the message queue is `session.py`. Calls that must not
be repeated blindly are settled here: when the answer to "create" or "register" got lost,
GitHub is asked by name before anything is sent again (weakness W8).

Contract: github-service-and-listener 2.6, 2.7, 2.12, 2.13.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Self, TypeVar

from runnerscale.core.clock import Clock
from runnerscale.core.deadline import Deadline
from runnerscale.core.randomness import Random
from runnerscale.scaleset import requests
from runnerscale.scaleset.actions import ActionsService, Call
from runnerscale.scaleset.answers import (
    decode_found_group,
    decode_found_runner,
    decode_found_scale_set,
    decode_jit_config,
    decode_runner,
    decode_scale_set,
)
from runnerscale.scaleset.attempts import Manner, Repeat
from runnerscale.scaleset.config_url import ConfigUrl, parse_config_url
from runnerscale.scaleset.credentials import Credentials
from runnerscale.scaleset.decode import DecodeError
from runnerscale.scaleset.errors import (
    BadAnswer,
    Refused,
    RunnerExists,
    RunnerGroupNotFound,
    ScaleSetAmbiguous,
    ScaleSetError,
    ScaleSetNotFound,
    Unavailable,
)
from runnerscale.scaleset.failures import Subject
from runnerscale.scaleset.interface import CALL_S
from runnerscale.scaleset.limits import CLEAN_UP, FRESH_DEMAND, HostLimits
from runnerscale.scaleset.model import JitConfig, RunnerGroup, RunnerReference, RunnerScaleSet
from runnerscale.scaleset.retry import RetryPolicy
from runnerscale.scaleset.session import MessageSession
from runnerscale.scaleset.transport import Transport
from runnerscale.scaleset.user_agent import SystemInfo, debug_text

__all__ = ["CLEAN_UP", "FRESH_DEMAND", "MessageSession", "ScaleSetClient"]

R = TypeVar("R")
F = TypeVar("F")

# What a 404 means on a path that has a scale set's id in it.
GONE = {404: ScaleSetNotFound, 410: ScaleSetNotFound}


class ScaleSetClient:
    """GitHub's scale-set service, at one place, with one credential.

    All calls raise only `scaleset.errors`. `timeout_s` bounds the whole call, waits between
    attempts included. Calls run side by side; only the refresh of tokens is done once for
    all who need it. Close it when done: `async with ScaleSetClient(...) as client`.
    """

    def __init__(
        self,
        config_url: ConfigUrl | str,
        credentials: Credentials,
        *,
        transport: Transport,
        clock: Clock,
        random: Random,
        system_info: SystemInfo | None = None,
        policy: RetryPolicy | None = None,
        limits: HostLimits | None = None,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """Nothing is sent before the first call; the transport is closed with the client.

        Args:
            config_url: of an enterprise, organization or repository.
            credentials: made by `personal_access_token` or `app_credentials`.
            limits: shared with other clients of this process; None: its own.
            on_refused: told when GitHub has refused the credentials, a proxy its own, or a
                certificate was not trusted: what the client was made of may be out of date.
        """
        if isinstance(config_url, str):
            config_url = parse_config_url(config_url)
        self._transport = transport
        self._service = ActionsService(
            config_url,
            credentials,
            transport,
            clock=clock,
            random=random,
            limits=limits or HostLimits(clock),
            policy=policy or RetryPolicy(),
            system_info=system_info or SystemInfo(),
            on_refused=on_refused,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let the connections go. Sessions have to be closed before."""
        await self._service.close()
        await self._transport.close()

    @property
    def config_url(self) -> ConfigUrl:
        """The place."""
        return self._service.config_url

    @property
    def system_info(self) -> SystemInfo:
        """Who we say we are; a new value holds from the next request, in sessions too."""
        return self._service.system_info

    @system_info.setter
    def system_info(self, value: SystemInfo) -> None:
        self._service.system_info = value

    def use_credentials(self, credentials: Credentials) -> None:
        """Go with rotated credentials from now on; sessions stay open, nothing is lost."""
        self._service.use_credentials(credentials)

    def debug_text(self) -> str:
        """How this client is set up, as JSON, without secrets."""
        return debug_text(
            self.system_info,
            has_proxy=self._transport.has_proxy,
            has_root_ca=self._transport.has_root_ca,
        )

    async def get_runner_group(self, name: str, *, timeout_s: float = CALL_S) -> RunnerGroup:
        """The runner group of that name. Contract 2.6.

        Raises:
            RunnerGroupNotFound: none, or more than one.
        """
        what = f'find runner group "{name}"'
        call = Call(
            "GET",
            requests.RUNNER_GROUPS,
            Subject(what, by_status={404: RunnerGroupNotFound}, several=RunnerGroupNotFound),
            query={"groupName": name},
        )
        found = await self._call(call, partial(decode_found_group, name=name), timeout_s)
        if found is None:
            raise RunnerGroupNotFound(
                f'no runner group found with name "{name}" at {self.config_url}. '
                "Create it there, or name another one"
            )
        return found

    async def find_scale_set(
        self, name: str, runner_group_id: int, *, timeout_s: float = CALL_S
    ) -> RunnerScaleSet | None:
        """The scale set of that name in that group, or None. Contract 2.7.

        Raises:
            ScaleSetAmbiguous: GitHub has several.
        """
        call = Call(
            "GET",
            requests.SCALE_SETS,
            Subject(
                f'find scale set "{name}" in runner group {runner_group_id}',
                several=ScaleSetAmbiguous,
            ),
            query={"runnerGroupId": str(runner_group_id), "name": name},
        )
        return await self._call(call, partial(decode_found_scale_set, name=name), timeout_s)

    async def get_scale_set(
        self, scale_set_id: int, *, timeout_s: float = CALL_S
    ) -> RunnerScaleSet | None:
        """The scale set of that id; None: the service answered `null`. Contract 2.7.

        Raises:
            ScaleSetNotFound: it is gone.
        """
        call = Call(
            "GET",
            f"{requests.SCALE_SETS}/{scale_set_id}",
            Subject(f"get scale set {scale_set_id}", by_status=GONE),
            scale_set_id=scale_set_id,
        )
        return await self._call(call, decode_scale_set, timeout_s)

    async def create_scale_set(
        self,
        name: str,
        runner_group_id: int,
        *,
        labels: Sequence[str] = (),
        disable_update: bool = True,
        timeout_s: float = CALL_S,
    ) -> RunnerScaleSet:
        """Make a scale set; `labels` empty: its name is the one label. Contract 2.7.

        Not idempotent at GitHub, but here: when an answer is lost, or the name turns out to
        be taken, the scale set of that name is looked up and returned.

        Raises:
            Unavailable, BadAnswer: no usable answer in time; it may exist. `find_scale_set`
                tells, and so does this call when made again.
        """
        if not name.strip():
            raise Refused("create scale set: it has no name. Give it one")
        body = requests.create_scale_set_body(
            name, runner_group_id, labels, disable_update=disable_update
        )
        call = Call(
            "POST",
            requests.SCALE_SETS,
            Subject(f'create scale set "{name}" in runner group {runner_group_id}'),
            body=body,
            manner=Manner(repeat=Repeat.UNSENT),
        )

        async def look_up(left_s: float) -> RunnerScaleSet | None:
            return await self.find_scale_set(name, runner_group_id, timeout_s=left_s)

        async def make(left_s: float) -> RunnerScaleSet:
            try:
                return await self._call(call, _present, left_s)
            except Refused as error:
                found = await look_up(left_s) if error.answer.status == 409 else None
                if found is None:
                    raise
                return found

        return await self._settled(make, look_up, lambda found: found, timeout_s)

    async def update_scale_set(
        self,
        scale_set_id: int,
        *,
        name: str | None = None,
        runner_group_id: int | None = None,
        labels: Sequence[str] | None = None,
        disable_update: bool | None = None,
        timeout_s: float = CALL_S,
    ) -> RunnerScaleSet:
        """Change what is not None, nothing else; the scale set as it is then. Contract 2.7.

        Raises:
            ScaleSetNotFound: it is gone.
        """
        body = requests.update_scale_set_body(
            name=name,
            runner_group_id=runner_group_id,
            labels=labels,
            disable_update=disable_update,
        )
        call = Call(
            "PATCH",
            f"{requests.SCALE_SETS}/{scale_set_id}",
            Subject(f"change scale set {scale_set_id}", by_status=GONE),
            body=body,
            scale_set_id=scale_set_id,
        )
        return await self._call(call, _present, timeout_s)

    async def delete_scale_set(self, scale_set_id: int, *, timeout_s: float = CALL_S) -> None:
        """Delete it, with everything registered in it. Contract 2.7.

        Raises:
            ScaleSetNotFound: it was gone already, perhaps by an attempt whose answer we lost.
        """
        call = Call(
            "DELETE",
            f"{requests.SCALE_SETS}/{scale_set_id}",
            Subject(f"delete scale set {scale_set_id}", by_status=GONE),
            accepted=204,
            scale_set_id=scale_set_id,
            manner=Manner(urgency=CLEAN_UP),
        )
        await self._call(call, _nothing, timeout_s)

    async def generate_jit_config(
        self,
        scale_set_id: int,
        runner_name: str,
        *,
        work_folder: str = "",
        urgency: int = FRESH_DEMAND,
        timeout_s: float = CALL_S,
    ) -> JitConfig:
        """Register one runner; the start-up configuration that only it may use. Contract 2.12.

        Not idempotent: GitHub keeps the name even when the answer is lost on the way, and
        hands out the configuration only once. After a lost answer the runner is looked up:
        not there, the call is made again; there, it is `RunnerExists`.

        Args:
            work_folder: path inside the runner; empty means the runner's own default.

        Raises:
            RunnerExists: the name is taken, possibly by our own lost call.
            ScaleSetNotFound: the scale set is gone.
            Unavailable, BadAnswer: no usable answer in time; the runner may exist.
        """
        call = Call(
            "POST",
            f"{requests.SCALE_SETS}/{scale_set_id}/generatejitconfig",
            Subject(
                f'register runner "{runner_name}" in scale set {scale_set_id}',
                by_status={**GONE, 409: RunnerExists},
            ),
            body=requests.jit_config_body(runner_name, work_folder),
            scale_set_id=scale_set_id,
            manner=Manner(urgency=urgency, repeat=Repeat.UNSENT),
        )

        async def look_up(left_s: float) -> RunnerReference | None:
            return await self.find_runner(runner_name, urgency=urgency, timeout_s=left_s)

        def taken(found: RunnerReference) -> JitConfig:
            raise RunnerExists(
                f'register runner "{runner_name}" in scale set {scale_set_id}: the answer was '
                f"lost, and a runner of that name is registered now (id {found.id}, scale set "
                f"{found.scale_set_id}). Remove it, then register again"
            )

        return await self._settled(
            partial(self._call, call, decode_jit_config), look_up, taken, timeout_s
        )

    async def get_runner(
        self, runner_id: int, *, urgency: int = CLEAN_UP, timeout_s: float = CALL_S
    ) -> RunnerReference:
        """The runner of that id. Contract 2.13.

        Raises:
            RunnerNotFound: GitHub says so itself; a bare 404 is `Refused`.
        """
        call = Call(
            "GET",
            f"{requests.RUNNERS}/{runner_id}",
            Subject(f"get runner {runner_id}"),
            manner=Manner(urgency=urgency),
        )
        return await self._call(call, decode_runner, timeout_s)

    async def find_runner(
        self, runner_name: str, *, urgency: int = CLEAN_UP, timeout_s: float = CALL_S
    ) -> RunnerReference | None:
        """The runner of that name, or None. Contract 2.13."""
        call = Call(
            "GET",
            requests.RUNNERS,
            Subject(f'find runner "{runner_name}"'),
            query={"agentName": runner_name},
            manner=Manner(urgency=urgency),
        )
        return await self._call(call, partial(decode_found_runner, name=runner_name), timeout_s)

    async def remove_runner(
        self, runner_id: int, *, urgency: int = CLEAN_UP, timeout_s: float = CALL_S
    ) -> None:
        """Forget a registration. Contract 2.13.

        Raises:
            RunnerNotFound: it was gone already. A 404 that does not say so in GitHub's own
                words (a proxy, a router) is `Refused`: a busy runner's life hangs on it.
            JobStillRunning: it has a job; GitHub's word is final.
        """
        call = Call(
            "DELETE",
            f"{requests.RUNNERS}/{runner_id}",
            Subject(f"remove runner {runner_id}"),
            accepted=204,
            manner=Manner(urgency=urgency),
        )
        await self._call(call, _nothing, timeout_s)

    def open_session(self, scale_set_id: int, owner_name: str) -> MessageSession:
        """A message session; not opened until entered (`async with`). Contract 2.8."""
        return MessageSession(self._service, scale_set_id, owner_name)

    async def _call(self, call: Call, decode: Callable[[bytes], R], timeout_s: float) -> R:
        deadline = Deadline.after(self._service.clock, timeout_s)
        return await self._service.call(call, decode, deadline)

    async def _settled(
        self,
        make: Callable[[float], Awaitable[R]],
        look_up: Callable[[float], Awaitable[F | None]],
        adopt: Callable[[F], R],
        timeout_s: float,
    ) -> R:
        """`make`, and again only after `look_up` has shown that the lost try left nothing."""
        service = self._service
        deadline = Deadline.after(service.clock, timeout_s)
        for attempt in range(service.policy.retries_max + 1):
            try:
                return await make(deadline.left_s())
            except (Unavailable, BadAnswer) as error:
                never_sent = isinstance(error, Unavailable) and not error.sent
                if never_sent or deadline.passed:
                    raise
                lost = error
            try:
                found = await look_up(deadline.left_s())
            except ScaleSetError as unknown:
                raise lost from unknown
            if found is not None:
                return adopt(found)
            wait_s = service.policy.backoff.delay_s(attempt, service.random)
            if attempt == service.policy.retries_max or wait_s > deadline.left_s():
                raise lost
            await service.clock.sleep(wait_s)
        raise AssertionError("the last round raises or returns")


def _present(body: bytes) -> RunnerScaleSet:
    found = decode_scale_set(body)
    if found is None:
        raise DecodeError("the answer is null instead of a scale set")
    return found


def _nothing(_: bytes) -> None:
    return None
