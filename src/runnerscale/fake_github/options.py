"""Everything that can be chosen about the pretended GitHub, with its default and its reason.

One flat, frozen value, so that a test says `replace(Options(), session_life_s=5)` and reads
like a sentence. What faults there are, and when they strike, is not here: `presets.py`.
"""

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum

from runnerscale.core.secret import SecretText


class OptionsInvalid(ValueError):
    """A value that cannot work; the text names it and says what would."""


class AssignmentMode(StrEnum):
    """How a job gets to a scale set (contract C2 Annex A)."""

    PUSH = "push"  # github.com today: assigned at once, bounded by the polled capacity
    ACQUIRE = "acquire"  # older GHES: offered by JobAvailable, claimed by acquirejobs


class HostedBackend(StrEnum):
    """Which of github.com's two URL forms a hosted client is sent to."""

    BROKER = "broker"  # https://broker.actions..., no tenant in the path, queue without query
    PIPELINES = "pipelines"  # https://pipelines.actions.../{tenant}/, queue with a query


class RateLimitForm(StrEnum):
    """How a refusal for too many calls looks."""

    PRIMARY = "primary"  # 403, x-ratelimit-remaining: 0, x-ratelimit-reset
    SECONDARY = "secondary"  # 403 with Retry-After
    TOO_MANY = "too-many"  # 429 with Retry-After


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices; every `_s` is in seconds.

    Attributes:
        host: where to listen; anything but a loopback address is refused.
        port: 0 takes a free one.
        certificate_file, key_file: PEM files; both or none; with them the server speaks HTTPS.
        public_url: base of the URLs handed to clients; empty: as the client addressed us.
        runner_url: base of the URL put in JIT configs; empty: the address we listen on.
        control_token: what `/control` asks for as a bearer token; empty: no token is needed.
        access_tokens: personal access tokens let in; empty: any.
        app_issuer: the one client id or app id let in; empty: any.
        app_installation_id: the one installation known; 0: any.
        app_public_key_pem: checks the RS256 signature of app JWTs; empty: signatures are not
            checked, everything else about the JWT is.
        owners: organizations and enterprises that exist; empty: all do.
        runner_groups: groups beside `Default`, in every tenant.
        repository: `owner/name` that synthetic jobs and workflows belong to.
        assignment: push or acquire.
        hosted_backend: which URL form `api.*` hosts are answered with.
        strict: refuse what the real service would not accept (missing `api-version`,
            wrong `Accept` on polls, a body that is not JSON).
        poll_hold_s: an empty poll is held this long (live: about 50).
        session_life_s: a session ends this long after its last poll or refresh.
        queue_token_life_s, admin_token_life_s, registration_token_life_s,
        installation_token_life_s: lives of the four tokens we give out.
        jit_life_s: how long after its making a JIT config may still be started with.
        assign_delay_s: from queued to assigned (live: about 1).
        assignment_timeout_s: an assigned job that no runner took goes back to the queue.
        requeue_delays_s: the waits before it is assigned again; when they are used up the
            job is canceled.
        offer_repeat_s: acquire mode: a job nobody claimed is offered again.
        handover_timeout_s: a runner that was given a job must confirm within.
        runner_poll_hold_s: a runner's empty poll is held this long.
        runner_offline_after_s: silence after which a runner counts as offline.
        runner_lost_s: silence after which a runner's job has failed.
        offline_runner_life_s: a registration nobody uses is forgotten after this.
        cancel_grace_s: a canceled job whose runner does not react is canceled anyway.
        agent_forget_delay_s: the registration goes this long after its one job ended.
        unknown_runner_removal_status: 204, or 404 with AgentNotFoundException.
        clock_skew_s: added to the clock that GitHub's answers (`Date`, token lives) show.
        rate_limit_calls: REST calls per window and credential; 0: no limit.
        rate_limit_window_s, rate_limit_form: the window, and how the refusal looks.
        statistics_only_envelopes: also send an envelope when only runner counts changed.
        log_max_bytes: of each job, the last so many bytes are kept.
        finished_jobs_max, events_max, undeleted_max, violations_max: memory bounds.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate_file: str = ""
    key_file: str = ""
    public_url: str = ""
    runner_url: str = ""
    control_token: SecretText = field(default_factory=lambda: SecretText(""))

    access_tokens: tuple[SecretText, ...] = ()
    app_issuer: str = ""
    app_installation_id: int = 0
    app_public_key_pem: str = ""
    owners: tuple[str, ...] = ()
    runner_groups: tuple[str, ...] = ()
    repository: str = "demo-org/demo"

    assignment: AssignmentMode = AssignmentMode.PUSH
    hosted_backend: HostedBackend = HostedBackend.BROKER
    strict: bool = True

    poll_hold_s: float = 50.0
    session_life_s: float = 60.0
    queue_token_life_s: float = 3_000.0
    admin_token_life_s: float = 3_600.0
    registration_token_life_s: float = 3_600.0
    installation_token_life_s: float = 3_600.0
    jit_life_s: float = 3_600.0

    assign_delay_s: float = 0.0
    assignment_timeout_s: float = 600.0
    requeue_delays_s: tuple[float, ...] = (10.0, 30.0, 90.0)
    offer_repeat_s: float = 30.0

    handover_timeout_s: float = 30.0
    runner_poll_hold_s: float = 20.0
    runner_offline_after_s: float = 30.0
    runner_lost_s: float = 60.0
    offline_runner_life_s: float = 86_400.0
    cancel_grace_s: float = 60.0
    agent_forget_delay_s: float = 0.0
    unknown_runner_removal_status: int = 204

    clock_skew_s: float = 0.0
    rate_limit_calls: int = 0
    rate_limit_window_s: float = 3_600.0
    rate_limit_form: RateLimitForm = RateLimitForm.PRIMARY

    statistics_only_envelopes: bool = False
    log_max_bytes: int = 1 << 20
    finished_jobs_max: int = 20_000
    events_max: int = 50_000
    undeleted_max: int = 10_000
    violations_max: int = 1_000

    def __post_init__(self) -> None:
        """Refuse what cannot work, at the earliest point.

        Raises:
            OptionsInvalid: names the option.
        """
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith(("_s", "_max", "_bytes", "_calls", "port")) and (
                isinstance(value, int | float) and value < 0 and each.name != "clock_skew_s"
            ):
                raise OptionsInvalid(f"{each.name} is {value}; it must be 0 or more")
            if isinstance(value, float) and not math.isfinite(value):
                raise OptionsInvalid(f"{each.name} is {value}; it must be a number of seconds")
        if bool(self.certificate_file) != bool(self.key_file):
            raise OptionsInvalid("certificate_file and key_file go together; give both or none")
        if self.unknown_runner_removal_status not in (204, 404):
            raise OptionsInvalid("unknown_runner_removal_status must be 204 or 404")
        if self.repository.count("/") != 1 or self.repository.strip("/") != self.repository:
            raise OptionsInvalid(f"repository is {self.repository!r}; it must be owner/name")
        if self.host not in ("127.0.0.1", "::1", "localhost"):
            raise OptionsInvalid(
                f"host is {self.host!r}; this server pretends to be GitHub and hands work to "
                "whoever asks, so it only listens on 127.0.0.1, ::1 or localhost"
            )
