"""The command line. `controller` and `listener` speak Go's flags, the rest is for people.

The first word is looked at before anything heavy is imported: the image of controller and
listener does without the `[cli]` extra. As `/manager` and `/ghalistener` the two can also be
called by the names that ARC's charts use.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from runnerscale.app.supervised import end_with_supervisor
from runnerscale.cli.boundary import guarded

# Names by which an image may call us, and the command each means.
ENTRY_POINTS = {"manager": "controller", "ghalistener": "listener"}


def run(program: str, arguments: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code."""
    words = list(arguments)
    alias = ENTRY_POINTS.get(Path(program).name)
    if alias:
        words.insert(0, alias)
    debug = "--debug" in words
    work = _work(words)
    return guarded("runnerscale", work, debug=debug)


def _work(words: list[str]) -> Callable[[], int]:
    first = words[0] if words else ""
    if first == "controller":

        def controller() -> int:
            _import_structlog_alone()
            from runnerscale.cli.controller_command import run_controller

            return run_controller(words[1:])

        return controller
    if first == "listener":

        def listener() -> int:
            _import_structlog_alone()
            from runnerscale.cli.listener_command import run_listener

            return run_listener(words[1:])

        return listener

    def people() -> int:
        from runnerscale.cli.people import run_people

        return run_people([word for word in words if word != "--debug"])

    return people


def _import_structlog_alone() -> None:
    """structlog imports rich where it finds it: 4 MiB and 0.1 s for tracebacks that it never draws.

    The image has no rich; on a single machine, where the demo draws with it, structlog is not to
    find it. Nobody else is kept from it.
    """
    found = sys.modules.get("rich")
    sys.modules["rich"] = None  # type: ignore[assignment]  # as `import` documents it
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
        if found is not None:
            sys.modules["rich"] = found


def main() -> None:
    """The `runnerscale` script."""
    end_with_supervisor()
    sys.exit(run(sys.argv[0], sys.argv[1:]))


if __name__ == "__main__":
    main()
