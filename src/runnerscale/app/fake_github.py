"""The stand-in for GitHub as a process. What it is, is `fake_github/server.py`."""

from pathlib import Path

from runnerscale.app.logs import Style, configure_logging
from runnerscale.app.problem import Problem, UsageProblem
from runnerscale.app.process import run_process
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.core.secret import SecretText
from runnerscale.core.small_file import read_small
from runnerscale.fake_github.options import AssignmentMode, Options, OptionsInvalid
from runnerscale.fake_github.server import FakeGitHubFailed, run_fake_github

TOKENS_BYTES_MAX = 64 * 1024


def run_fake_github_process(
    *,
    port: int,
    hold_s: float,
    session_s: float,
    acquire: bool,
    certificate: Path | None = None,
    key: Path | None = None,
    tokens: Path | None = None,
) -> int:
    """Serve until SIGTERM; the exit code. `tokens`: a file of those that are let in.

    Raises:
        Problem: an option or the port cannot be used.
    """
    clock = SystemClock()
    configure_logging("info", "text", style=Style.CONTROLLER, clock=clock)
    try:
        options = Options(
            port=port,
            poll_hold_s=hold_s,
            session_life_s=session_s,
            assignment=AssignmentMode.ACQUIRE if acquire else AssignmentMode.PUSH,
            certificate_file=str(certificate or ""),
            key_file=str(key or ""),
            access_tokens=() if tokens is None else read_tokens(tokens),
        )
    except OptionsInvalid as error:
        raise UsageProblem(str(error).rstrip("."), "") from error

    async def work() -> int:
        try:
            await run_fake_github(options, clock=clock, random=system_random())
        except FakeGitHubFailed as error:
            raise Problem(str(error).rstrip("."), "") from error
        return 0

    return run_process(work)


def read_tokens(path: Path) -> tuple[SecretText, ...]:
    """The tokens in a file, one a line.

    Raises:
        Problem: the file cannot be read, or holds none: then anybody would be let in.
    """
    try:
        words = read_small(path, TOKENS_BYTES_MAX).decode().split()
    except UnicodeDecodeError:
        words = []
    except OSError as error:
        raise Problem(
            f"the token file {path} cannot be read: {error.strerror}", "Correct --token-file"
        ) from error
    if not words:
        raise Problem(f"the file {path} holds no token", "Write one a line into it")
    return tuple(SecretText(word) for word in words)
