"""Known troubles of GitHub, ready to be switched on by name.

Each preset says what users see in real life, and is a few rules, or an act at once, or both.
`--fault NAME@TIME` of the demo and `POST /control/faults {"preset": NAME}` use them; the
list for people is `GET /control/presets`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from runnerscale.fake_github.faults import Action, Drop, FaultInvalid, Match, Rule
from runnerscale.fake_github.operations import OPERATIONS

REST_OPERATIONS = ("installation-token", "registration-token", "runner-registration")
QUEUE_OPERATIONS = ("poll", "acknowledge", "acquire-jobs")
RUNNER_OPERATIONS = tuple(sorted(name for name in OPERATIONS if name.startswith("runner-") and
                                 name != "runner-registration"))  # fmt: skip
CLIENT_OPERATIONS = tuple(sorted(OPERATIONS - set(RUNNER_OPERATIONS)))
SERVICE_OPERATIONS = tuple(
    sorted(set(CLIENT_OPERATIONS) - set(REST_OPERATIONS) - set(QUEUE_OPERATIONS))
)

DOWN_PAGE = "<html><body><h1>503 Service Unavailable</h1></body></html>"
UNICORN = "<!DOCTYPE html><html><body>Unicorn! GitHub is having a bad day.</body></html>"
BUSY = (
    '{"typeName":"GitHub.DistributedTask.WebApi.TaskAgentJobStillRunningException, '
    'GitHub.DistributedTask.WebApi","message":"The runner is still running a job."}'
)
UNAUTHORIZED = '{"message":"Bad credentials","documentation_url":"https://docs.github.com/rest"}'
DEPRECATED = (
    '{"code":"runner-version-deprecated","message":'
    '"Runner version v0.0.1 is deprecated and cannot receive messages."}'
)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a preset is switched on with."""

    now_s: float
    seconds: float  # how long it lasts, where that means something
    times: int | None  # how often it strikes, where that means something
    value: str

    @property
    def until_s(self) -> float:
        """When it is over."""
        return self.now_s + self.seconds

    def count(self, default: int) -> int:
        """How often, or the preset's own number."""
        return self.times if self.times is not None else default


@dataclass(frozen=True, slots=True)
class Preset:
    """A trouble with a name. `twist`: acts at once; `rules`: what stands from then on."""

    description: str
    seconds: float = 30.0
    rules: Callable[[Ask], list[Rule]] = field(default=lambda _ask: [])
    twist: str = ""
    value: str = ""


def _lasting(operations: tuple[str, ...], **action: object) -> Callable[[Ask], list[Rule]]:
    """A rule on those operations for the whole time."""

    def rules(ask: Ask) -> list[Rule]:
        made = Action(**action)  # type: ignore[arg-type]  # the table below is checked by a test
        return [Rule(Match(operations=operations), made, times=ask.times, until_s=ask.until_s)]

    return rules


def _striking(
    operations: tuple[str, ...], default_times: int, **action: object
) -> Callable[[Ask], list[Rule]]:
    """A rule that fires so many times, whenever that is."""

    def rules(ask: Ask) -> list[Rule]:
        made = Action(**{"value": ask.value, **action})  # type: ignore[arg-type]  # as above
        return [Rule(Match(operations=operations), made, times=ask.count(default_times))]

    return rules


def _rate_limited(status: int) -> Callable[[Ask], list[Rule]]:
    def rules(ask: Ask) -> list[Rule]:
        wait = ("Retry-After", str(max(1, int(ask.seconds))))
        reset = (("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", "0"),
                 ("x-ratelimit-reset", str(int(ask.until_s) + 1)))  # fmt: skip
        body = '{"message":"API rate limit exceeded. Wait before you try again."}'
        headers = (wait,) if status == 429 else reset
        action = Action(status=status, body=body, headers=headers)
        return [Rule(Match(operations=CLIENT_OPERATIONS), action, until_s=ask.until_s)]

    return rules


PRESETS: dict[str, Preset] = {
    "github-down": Preset(
        "Everything answers 503 with an HTML page, runners included.",
        rules=_lasting((), status=503, body=DOWN_PAGE, content_type="text/html"),
    ),
    "github-unreachable": Preset(
        "Connections are accepted and cut before anything is done.",
        rules=_lasting((), drop=Drop.BEFORE),
    ),
    "black-hole": Preset(
        "Requests are swallowed and never answered.",
        rules=_lasting(CLIENT_OPERATIONS, black_hole=True),
    ),
    "slow": Preset(
        "Every answer takes `value` seconds longer (default 2).",
        rules=lambda ask: [
            Rule(
                Match(operations=CLIENT_OPERATIONS),
                Action(delay_s=float(ask.value or 2)),
                until_s=ask.until_s,
            )
        ],
    ),
    "rate-limited": Preset(
        "429 with Retry-After on every call.", seconds=10.0, rules=_rate_limited(429)
    ),
    "rate-limited-403": Preset(
        "The same as 403 with x-ratelimit headers, which is how GitHub says it for REST.",
        seconds=10.0,
        rules=_rate_limited(403),
    ),
    "credentials-revoked": Preset(
        "The credentials and every token made from them are refused with 401.",
        rules=_lasting(CLIENT_OPERATIONS, status=401, body=UNAUTHORIZED),
    ),
    "token-expired": Preset(
        "Admin and queue tokens are worth nothing at once; renewing them works.",
        twist="expire-tokens",
    ),
    "scale-set-deleted": Preset(
        "Somebody deletes the scale set at GitHub.", twist="delete-scale-set"
    ),
    "session-lost": Preset("The service forgets the session.", twist="lose-session"),
    "session-held": Preset(
        "Another listener takes the session and holds it.", seconds=30.0, twist="hold-session"
    ),
    "session-without-url": Preset(
        "The next session answer lacks its queue URL (seen live during outages).",
        twist="lose-session",
        rules=_striking(("open-session",), 1, twist="no-queue-url"),
    ),
    "jit-lost-answer": Preset(
        "The next JIT configs are made, but the answer is lost: the name is then taken.",
        rules=_striking(("jit-config",), 1, drop=Drop.AFTER),
    ),
    "session-lost-answer": Preset(
        "The session is opened, but the answer is lost: the next try conflicts with oneself.",
        twist="lose-session",
        rules=_striking(("open-session",), 1, drop=Drop.AFTER),
    ),
    "runner-name-taken": Preset(
        "The next runner names already belong to another scale set.",
        rules=_striking(("jit-config",), 1, twist="name-taken"),
    ),
    "runner-lookup-lags": Preset(
        "The next look-ups of a runner by name find nothing, though it is there.",
        rules=_striking(("find-runner",), 1, status=200, body='{"count":0,"value":[]}'),
    ),
    "job-still-running": Preset(
        "The next removals are refused because of a job, though the runner is idle.",
        rules=_striking(("remove-runner",), 3, status=409, body=BUSY),
    ),
    "runner-ghost": Preset(
        "The registration of the next waiting runner vanishes; its process is not told.",
        rules=_striking(("runner-poll",), 1, twist="ghost"),
    ),
    "job-completed-early": Preset(
        "GitHub says the next started job is complete while its runner works on it.",
        rules=_striking(("runner-confirm",), 1, twist="complete-early"),
    ),
    "runner-version-refused": Preset(
        "Runners that start are told that their version is too old (exit code 7).",
        rules=_lasting(
            ("runner-connect",),
            status=403,
            body=DEPRECATED,
        ),
    ),
    "lying-statistics": Preset(
        "The next envelopes claim `value` assigned jobs (default 0).",
        twist="send-statistics",
        rules=_striking(("poll",), 1, twist="lie"),
    ),
    "malformed-message": Preset(
        "The next envelope holds a job message that cannot be decoded.",
        twist="send-statistics",
        rules=_striking(("poll",), 1, twist="malformed-element"),
    ),
    "malformed-envelope": Preset(
        "The next envelope's body is no array.",
        twist="send-statistics",
        rules=_striking(("poll",), 1, twist="malformed-body"),
    ),
    "unknown-message-type": Preset(
        "The next envelope holds a job message of an unknown type.",
        twist="send-statistics",
        rules=_striking(("poll",), 1, twist="unknown-element"),
    ),
    "unknown-envelope-type": Preset(
        "The next envelope is itself of an unknown type.",
        twist="send-statistics",
        rules=_striking(("poll",), 1, twist="unknown-envelope"),
    ),
    "repeated-message": Preset(
        "The last message is delivered once more, though it was acknowledged.",
        twist="repeat-message",
    ),
    "reordered-messages": Preset(
        "Job messages that wait are delivered in the wrong order.",
        rules=_striking(("poll",), 5, twist="reverse-messages"),
    ),
    "acknowledge-ignored": Preset(
        "The next acknowledgements are answered, but the message stays.",
        rules=_striking(("acknowledge",), 1, status=204),
    ),
    "bom-bodies": Preset(
        "A byte order mark before every answer, which is otherwise fine.",
        rules=_lasting(CLIENT_OPERATIONS, twist="bom"),
    ),
    "html-bodies": Preset(
        "A proxy's 502 page instead of answers.",
        seconds=10.0,
        rules=_lasting(CLIENT_OPERATIONS, status=502, body=UNICORN, content_type="text/html"),
    ),
    "empty-bodies": Preset(
        "Successes without a body (seen live on polls).",
        seconds=10.0,
        rules=_lasting(CLIENT_OPERATIONS, twist="empty"),
    ),
    "cut-bodies": Preset(
        "Answers that end in the middle.",
        seconds=10.0,
        rules=_lasting(CLIENT_OPERATIONS, twist="cut"),
    ),
    "plain-bodies": Preset(
        "500 with a plain text.",
        seconds=10.0,
        rules=_lasting(
            CLIENT_OPERATIONS, status=500, body="internal error", content_type="text/plain"
        ),
    ),
}


def preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        FaultInvalid: there is none; the text lists them.
    """
    found = PRESETS.get(name)
    if found is None:
        raise FaultInvalid(f"there is no fault {name!r}; there are: {', '.join(sorted(PRESETS))}")
    return found
