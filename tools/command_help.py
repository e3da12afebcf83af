"""The page of commands: each command's own help text, as `--help` prints it."""

import contextlib
import io
import os

COMMANDS = (
    "demo",
    "values check",
    "migrate check",
    "fake-github",
    "crds",
    "rights",
    "api-server",
    "node",
    "version",
)
HEAD = """# Commands

Made by `make generate` from the commands' own help; do not edit. `controller` and `listener` take
ARC's flags in Go's style (`-flag`, `--flag`, `--flag=value`) and ARC's environment; the others are
for people. Exit codes: 0 well, 1 failed, 2 wrong usage, 130 ended by Ctrl-C. Every command takes
`--debug`: an error is then shown with its traceback.
"""


def render() -> str:
    """The page."""
    os.environ["COLUMNS"] = "100"
    os.environ["NO_COLOR"] = "1"
    from runnerscale.cli.controller_command import controller_flags
    from runnerscale.cli.people import app

    parts = [HEAD]
    for name in COMMANDS:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            app([*name.split(), "--help"], exit_on_error=False, result_action="return_value")
        text = "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())
        parts.append(f"## runnerscale {name}\n\n```text\n{text}\n```\n")
    flags = controller_flags().format_help()
    parts.append(f"## runnerscale controller\n\n```text\n{flags.strip()}\n```\n")
    parts.append(
        "## runnerscale listener\n\nTakes no flags but `--debug`; reads the file that "
        "`LISTENER_CONFIG_PATH` names, which the controller writes.\n"
    )
    return "\n".join(parts)
