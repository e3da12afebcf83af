"""ARC's flags, in Go's style: `-flag`, `--flag`, `--flag=value`, `--flag value`.

The charts write them, so they must be understood as Go understands them: a switch takes a value
only behind `=`, a number may be octal, of a flag that is given twice the last counts. Two things
are said instead of passed over: an unknown flag with the nearest known one, and a word that
belongs to no flag (Go would end reading there, and not tell). What a flag means is in `app/`;
this file only reads.

Contract: charts-and-operations 5.
"""

import difflib
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runnerscale.app.problem import UsageProblem

TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
INTEGER_LIMIT = 2**63
DURATION = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
HELP = frozenset({"h", "help"})
WIDTH = 100
COLUMN = 45  # where meanings begin


class _UnreadableValue(Exception):
    """What a value is not."""


@dataclass(frozen=True, slots=True)
class _Flag:
    name: str
    form: str  # what its value is, for people; empty: a switch
    default: object
    meaning: str
    read: Callable[[str], object]
    repeats: bool = False
    listed: bool = True  # False: known, without effect, and named in one line together


class GoFlags:
    """Which flags there are; reads a command line into their values, or raises."""

    def __init__(self, command: str, description: str) -> None:
        """`command` as people type it, for messages."""
        self._command = command
        self._description = description
        self._flags: dict[str, _Flag] = {}
        self._notes: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        """All flags, in the order in which they were told."""
        return tuple(self._flags)

    def text(self, name: str, default: str, meaning: str) -> None:
        """`-name VALUE`."""
        self._add(_Flag(name, "TEXT", default, meaning, str))

    def texts(self, name: str, meaning: str) -> None:
        """`-name VALUE`, as often as wanted."""
        self._add(_Flag(name, "TEXT", [], meaning, str, repeats=True))

    def number(self, name: str, default: int, meaning: str) -> None:
        """`-name 5`; Go's integers."""
        self._add(_Flag(name, "NUMBER", default, meaning, _integer))

    def duration(self, name: str, default: str, meaning: str) -> None:
        """`-name 1m30s`; kept as text."""
        self._add(_Flag(name, "TIME", default, meaning, _duration))

    def switch(self, name: str, meaning: str) -> None:
        """`-name` or `-name=true`; off by default."""
        self._add(_Flag(name, "", False, meaning, _boolean))

    def ignored(
        self,
        *,
        texts: Sequence[str],
        numbers: Sequence[str],
        switches: Sequence[str],
        durations: Sequence[str],
    ) -> None:
        """Flags that are read as Go reads them, and then mean nothing."""
        for names, form, read in (
            (texts, "TEXT", str),
            (numbers, "NUMBER", _integer),
            (durations, "TIME", _duration),
            (switches, "", _boolean),
        ):
            for name in names:
                self._add(_Flag(name, form, None, "", read, listed=False))

    def note(self, text: str) -> None:
        """Said at the end of the help text."""
        self._notes.append(text)

    def _add(self, flag: _Flag) -> None:
        self._flags[flag.name] = flag

    def read(self, arguments: Sequence[str]) -> dict[str, object]:
        """The flags by name.

        Raises:
            UsageProblem: an unknown flag, a missing or unreadable value, a stray argument.
            SystemExit: the help text was asked for, and is printed.
        """
        read = {name: flag.default for name, flag in self._flags.items()}
        words = list(arguments)
        while words:
            word = words.pop(0)
            name, equals, value = self._split(word)
            if name in HELP and name not in self._flags:
                print(self.format_help())
                raise SystemExit(0)
            flag = self._flags.get(name)
            if flag is None:
                raise self._unknown(name)
            if not equals and flag.form:
                if not words:
                    raise self._wrong(f"--{name} has no value", f"Write --{name}={flag.form}")
                value = words.pop(0)
            elif not equals:
                value = "true"
                self._no_value_behind(flag, words)
            item = self._value(flag, value)
            if flag.repeats:
                known = read[name]
                assert isinstance(known, list)
                read[name] = [*known, item]
            else:
                read[name] = item
        return read

    def _split(self, word: str) -> tuple[str, str, str]:
        dashes = 2 if word.startswith("--") else 1
        if not word.startswith("-") or word in {"-", "--"}:
            raise self._wrong(f"unexpected argument {word!r}", f"Remove it, or {self._see}")
        name, equals, value = word[dashes:].partition("=")
        if not name or name.startswith("-"):
            raise self._wrong(f"{word!r} is no flag", f"Write it as --flag=value, or {self._see}")
        return name, equals, value

    def _no_value_behind(self, flag: _Flag, words: Sequence[str]) -> None:
        if words and words[0] in TRUE | FALSE:
            raise self._wrong(
                f"unexpected argument {words[0]!r} behind --{flag.name}",
                f"A switch takes its value behind '=': --{flag.name}={words[0]}",
            )

    def _value(self, flag: _Flag, value: str) -> object:
        try:
            return flag.read(value)
        except _UnreadableValue as error:
            raise self._wrong(
                f"--{flag.name}: {value!r} is {error}",
                f"Run '{self._command} --help' for the flags and their values",
            ) from None

    def _unknown(self, name: str) -> UsageProblem:
        near = difflib.get_close_matches(name, self._flags, n=1, cutoff=0.5)
        hint = (
            f"Did you mean --{near[0]}? Otherwise {self._see}" if near else self._see.capitalize()
        )
        return self._wrong(f"unknown flag --{name}", hint)

    @property
    def _see(self) -> str:
        return f"run '{self._command} --help' for all flags"

    def _wrong(self, happened: str, remedy: str) -> UsageProblem:
        usage = f"usage: {self._command} [--flag=value ...]"
        return UsageProblem(f"{self._command}: {happened}", f"{remedy}; {usage}")

    def format_help(self) -> str:
        """All flags and what they mean."""
        lines = [f"usage: {self._command} [--flag=value ...]", "", *_wrapped(self._description)]
        lines += ["", "options:", *_row("  --help", "show this text")]
        silent = []
        for flag in self._flags.values():
            if not flag.listed:
                silent.append(f"--{flag.name}")
                continue
            value = f"={flag.form}" if flag.form else ""
            shown = f"{flag.meaning} (default {flag.default})" if flag.default else flag.meaning
            lines += _row(f"  --{flag.name}{value}", shown)
        if silent:
            lines += ["", *_wrapped(f"Accepted, and without effect: {', '.join(silent)}.")]
        for note in self._notes:
            lines += ["", *_wrapped(note)]
        return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def _row(flag: str, meaning: str) -> list[str]:
    first, *more = textwrap.wrap(meaning, WIDTH - COLUMN, break_on_hyphens=False)
    head = [f"{flag:<{COLUMN}}{first}"] if len(flag) < COLUMN else [flag, " " * COLUMN + first]
    return [*head, *(" " * COLUMN + line for line in more)]


def _integer(text: str) -> int:
    octal = re.fullmatch(r"([-+]?)0([0-9_]+)", text)
    try:
        if not re.fullmatch(r"[-+]?[0-9A-Za-z_]+", text):
            raise ValueError
        number = int(f"{octal[1]}0o{octal[2]}" if octal else text, 0)
    except ValueError:
        raise _UnreadableValue("not a whole number") from None
    if not -INTEGER_LIMIT <= number < INTEGER_LIMIT:
        raise _UnreadableValue("too large a number")
    return number


def _duration(text: str) -> str:
    if not DURATION.fullmatch(text):
        raise _UnreadableValue("no time such as 1m30s")
    return text


def _boolean(text: str) -> bool:
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise _UnreadableValue("neither true nor false")
