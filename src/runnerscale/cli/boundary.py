"""Where an error becomes one sentence and an exit code: 2 for usage, 1 for failure.

No traceback unless asked for (`--debug`): a person's mistake is not our crash. Interrupted by
Ctrl-C is 130, as shells count it.
"""

import errno
import sys
import traceback
from collections.abc import Callable

from runnerscale.app.problem import FAILURE, Problem
from runnerscale.core.plain_text import one_line
from runnerscale.kube.errors import ConfigError, KubeError
from runnerscale.scaleset.errors import ScaleSetError

INTERRUPTED = 130
OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
TEXT_CHARS_MAX = 16 * 1024
UNUSABLE_API = "the Kubernetes API cannot be used"


def guarded(command: str, work: Callable[[], int], *, debug: bool) -> int:
    """Run `work`; what it raises is told on standard error. Returns the exit code."""
    try:
        return work()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return FAILURE  # the reader of our output is gone: nobody to tell
    except Exception as error:  # noqa: BLE001 - the edge: every error ends as a sentence here
        if debug:
            traceback.print_exc()
        code, text = sentence(error)
        text = one_line(text, TEXT_CHARS_MAX)
        print(f"{command}: {text}" if not text.startswith(command) else text, file=sys.stderr)
        return code


def sentence(error: BaseException) -> tuple[int, str]:
    """Exit code and text for an error; a group tells its first member."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, Problem):
        return error.exit_code, str(error)
    if isinstance(error, ConfigError):
        said = str(error).rstrip(".")
        return FAILURE, f"{UNUSABLE_API}: {said}. Correct it, or name another with --kubeconfig."
    if isinstance(error, KubeError):
        return FAILURE, f"{UNUSABLE_API}: {error}"
    if isinstance(error, ScaleSetError):
        return FAILURE, f"GitHub cannot be used: {error}"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        remedy = "Check that it exists and may be used"
        if error.errno in OUT_OF_FILES:
            remedy = "Raise the limit of file descriptors (ulimit -n, LimitNOFILE=)"
        if error.errno in NO_ROOM:
            remedy = "Free some of the disk, then start again"
        return FAILURE, f"{where}{error.strerror}. {remedy}."
    if isinstance(error, MemoryError):
        return FAILURE, "there is not enough memory. Give the process more, then start it again."
    if isinstance(error, RecursionError):
        return (
            FAILURE,
            "a file or answer is nested too deeply. Run again with --debug to see which.",
        )
    kind = type(error).__name__
    return FAILURE, f"internal error ({kind}: {error}). Run again with --debug and report it."
