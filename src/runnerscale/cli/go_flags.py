"""ARC's flags, in Go's style: `-flag`, `--flag`, `--flag=value`, `--flag value`.

The charts write them, so they must be understood as Go understands them. An unknown flag is
answered with the nearest known one. What a flag means is in `app/`; this file only reads.
"""

import argparse
import difflib
from collections.abc import Sequence
from typing import NoReturn

from runnerscale.app.problem import UsageProblem

TRUE = {"1", "t", "true"}
FALSE = {"0", "f", "false"}


class OneForm(argparse.HelpFormatter):
    """Shows a flag once, in the form with two dashes; that one dash will do is said on the page."""

    def __init__(self, prog: str) -> None:
        """Room for the longest flag, so that meanings stand in one column."""
        super().__init__(prog, max_help_position=48)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        flag = action.option_strings[-1]
        value = "" if action.nargs in {0, "?"} else f"={action.metavar}"
        return f"{flag}{value}"


class GoFlags(argparse.ArgumentParser):
    """A parser that knows only Go-style flags and raises instead of leaving the process."""

    def __init__(self, command: str, description: str) -> None:
        """`command` as people type it, for messages."""
        super().__init__(
            prog=command,
            usage=f"{command} [--flag=value ...]",
            description=description,
            formatter_class=OneForm,
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("-h", "-help", "--help", action="help", help="show this text")

    def text(self, name: str, default: str, meaning: str) -> None:
        """`-name VALUE`."""
        told = f"{meaning} (default {default})" if default else meaning
        self.add_argument(
            f"-{name}", f"--{name}", dest=name, default=default, metavar="TEXT", help=told
        )

    def texts(self, name: str, meaning: str) -> None:
        """`-name VALUE`, as often as wanted."""
        self.add_argument(
            *(f"-{name}", f"--{name}"),
            dest=name,
            action="append",
            default=[],
            metavar="TEXT",
            help=meaning,
        )

    def number(self, name: str, default: int, meaning: str) -> None:
        """`-name 5`; Go's integers."""
        told = f"{meaning} (default {default})" if default else meaning
        self.add_argument(
            *(f"-{name}", f"--{name}"),
            dest=name,
            default=default,
            type=_integer,
            metavar="NUMBER",
            help=told,
        )

    def switch(self, name: str, meaning: str) -> None:
        """`-name` or `-name=true`; off by default."""
        self.add_argument(
            *(f"-{name}", f"--{name}"),
            dest=name,
            default=False,
            const=True,
            nargs="?",
            type=_boolean,
            help=meaning,
        )

    def read(self, arguments: Sequence[str]) -> dict[str, object]:
        """The flags by name.

        Raises:
            UsageProblem: an unknown flag, a missing or unreadable value, a stray argument.
        """
        known, rest = self.parse_known_args(list(arguments))
        if rest:
            raise UsageProblem(*self._unknown(rest[0]))
        return vars(known)

    def error(self, message: str) -> NoReturn:
        """What argparse found wrong, as our kind of error."""
        raise UsageProblem(
            f"{self.prog}: {message}", f"Run '{self.prog} --help' for the flags and their values"
        )

    def _unknown(self, argument: str) -> tuple[str, str]:
        see = f"run '{self.prog} --help' for all flags"
        if not argument.startswith("-"):
            return f"{self.prog}: unexpected argument {argument!r}", f"Remove it, or {see}"
        name = argument.lstrip("-").partition("=")[0]
        flags = [f.lstrip("-") for f in self._option_string_actions if f.startswith("--")]
        near = difflib.get_close_matches(name, flags, n=1, cutoff=0.5)
        hint = f"Did you mean --{near[0]}? Otherwise {see}" if near else see.capitalize()
        return f"{self.prog}: unknown flag --{name}", hint


def _integer(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _boolean(text: str) -> bool:
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
