"""`runnerscale listener`: everything it needs is in the file that LISTENER_CONFIG_PATH names."""

from collections.abc import Sequence

from runnerscale.app.listener import run_listener_process
from runnerscale.cli.go_flags import GoFlags

COMMAND = "runnerscale listener"


def run_listener(arguments: Sequence[str]) -> int:
    """Run until SIGTERM; the exit code."""
    flags = GoFlags(
        COMMAND, "Listens to one scale set's queue; configured by the file in LISTENER_CONFIG_PATH."
    )
    flags.switch("debug", "show tracebacks")
    flags.read(arguments)
    return run_listener_process()
