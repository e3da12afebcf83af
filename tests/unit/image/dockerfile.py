"""The Dockerfile as values: stages and instructions, arguments filled in.

Only what ours uses; anything else is an error, so that nothing is passed over in silence. The rules
about it are `test_dockerfile.py`, carrying it out without a container engine is
`tests/system/image_root.py`.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
INSTRUCTIONS = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "ENTRYPOINT"}


@dataclass(frozen=True)
class Instruction:
    """One instruction, as written."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """Its arguments; those of the exec form too."""
        if self.rest.startswith("["):
            words: list[str] = json.loads(self.rest)
            return words
        return shlex.split(self.rest)


@dataclass(frozen=True)
class Stage:
    """From one FROM to the next."""

    name: str
    base: str
    instructions: tuple[Instruction, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)

    def all(self, name: str) -> list[Instruction]:
        """The instructions of that name."""
        return [item for item in self.instructions if item.name == name]

    def filled(self, text: str) -> str:
        """With `${NAME}` replaced by this stage's arguments."""
        return re.sub(r"\$\{(\w+)\}", lambda found: self.arguments[found[1]], text)


def read(text: str, **build_args: str) -> list[Stage]:
    """The stages of a Dockerfile."""
    known: dict[str, str] = {}
    stages: list[Stage] = []
    for instruction in _instructions(text):
        if instruction.name == "FROM":
            base, _, name = instruction.rest.partition(" AS ")
            base = re.sub(r"\$\{(\w+)\}", lambda found: known[found[1]], base)
            stages.append(Stage(name or str(len(stages)), base))
        elif instruction.name == "ARG":
            name, _, value = instruction.rest.partition("=")
            value = build_args.get(name, value)
            (stages[-1].arguments if stages else known)[name] = value  # type: ignore[index]
        else:
            last = stages[-1]
            items = (*last.instructions, instruction)
            stages[-1] = Stage(last.name, last.base, items, last.arguments)
    return stages


def _instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = []
    for line in joined.splitlines():
        name, _, rest = line.strip().partition(" ")
        if name not in INSTRUCTIONS:
            raise ValueError(f"an instruction that nobody here knows: {line}")
        found.append(Instruction(name, rest.strip()))
    return found


def in_context(path: str, rules: str) -> bool:
    """Whether `.dockerignore` lets a file through: the last rule that fits decides."""
    let_through = True
    for line in rules.splitlines():
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        allows = rule.startswith("!")
        pattern = re.escape(rule.lstrip("!").rstrip("/")).replace(r"\*\*/", "(.*/)?")
        pattern = pattern.replace(r"\*", "[^/]*")
        if re.fullmatch(f"{pattern}(/.*)?", path):
            let_through = allows
    return let_through
