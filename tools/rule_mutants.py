"""Do the plan tests notice a small mistake in a rule? Tries some, and lists those that nobody saw.

A mistake is one change of one place in a pure rule: a condition turned round, a guard or an
action left out, a bound moved by one. For each, the tests of that rule's folder under
`tests/plan` run in a forked process that imports the changed rule. Which places are tried is
drawn from a seed, as all of them would take hours: `python tools/rule_mutants.py --sample 100`.

What survives is not always a hole: some changes mean the same. `tests/simulation/mutants` does
this for the whole system, with defects chosen by hand.
"""

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
RULES = SOURCE / "runnerscale"
SHELLS = {"__init__.py", "controller.py", "apply.py", "memory.py", "removals.py"}
LISTENER = ("available_jobs.py", "job_started.py", "scaler.py", "states.py", "told.py")
PLANNED = {"Step", "Stage", "Plan"}  # what a rule answers with; its first argument are the actions
HEAVY = ("pytest", "msgspec", "aiohttp", "structlog", "prometheus_client", "asyncio")
SURVIVED, KILLED, BROKEN = 0, 1, 2

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True, slots=True)
class Change:
    """One mistake. `place`: which node, in the order of a walk."""

    path: Path
    place: int
    way: str
    line: int

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.way}"


def rule_files() -> list[Path]:
    """All pure rules that have plan tests."""
    files = [p for p in RULES.glob("controllers/*/*.py") if p.name not in SHELLS]
    files += [RULES / "listener" / name for name in LISTENER]
    return sorted(p for p in files if tests_of(p).exists())


def tests_of(path: Path) -> Path:
    """The test file of a rule."""
    return ROOT / "tests" / "plan" / path.parent.name / f"test_{path.stem}.py"


def changes(path: Path) -> Iterator[Change]:
    """Every mistake that can be made in a file."""
    tree = ast.parse(path.read_text())
    inside = {id(n) for f in _functions(tree) for n in ast.walk(f)}
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in inside:
            for way in _ways(node):
                yield Change(path, place, way, getattr(node, "lineno", 0))


def _functions(tree: ast.Module) -> Iterator[ast.AST]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


def _ways(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.If() | ast.IfExp():
            yield "turn the condition round"
        case ast.comprehension(ifs=[_, *_]):
            yield "take out the filter"
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield "another comparison"
        case ast.BoolOp(values=values):
            yield "and becomes or, or and"
            yield from (f"leave out operand {n}" for n in range(len(values)))
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield "plus becomes minus, or minus plus"
        case ast.Call(func=ast.Name(id="min" | "max")):
            yield "min becomes max, or max min"
        case ast.Call(func=ast.Name(id=name), args=[ast.Tuple(elts=[_, *_]), *_]):
            if name in PLANNED:
                yield "leave out the actions"
        case ast.Constant(value=bool()):
            yield "true becomes false, or false true"
        case ast.Constant(value=int()):
            yield "one more"


def changed(change: Change) -> ast.Module:
    """The file with the mistake in it."""
    tree = copy.deepcopy(ast.parse(change.path.read_text()))
    node: ast.AST = list(ast.walk(tree))[change.place]
    match node:
        case ast.If() | ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.comprehension():
            node.ifs = []
        case ast.Compare():
            node.ops = [SWAPS[type(node.ops[0])]()]  # type: ignore[list-item]
        case ast.BoolOp() if change.way.startswith("leave out"):
            del node.values[int(change.way.split()[-1])]
            if len(node.values) == 1:
                _put(tree, node, node.values[0])
        case ast.BoolOp() | ast.BinOp():
            node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
        case ast.Call(func=ast.Name(id="min" | "max")):
            assert isinstance(node.func, ast.Name)
            node.func.id = {"min": "max", "max": "min"}[node.func.id]
        case ast.Call():
            node.args[0] = ast.Tuple([], ast.Load())
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant():
            node.value = node.value + 1  # type: ignore[operator]
    return ast.fix_missing_locations(tree)


def _put(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """`new` where `old` is."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(item is old for item in value):
                value[:] = [new if item is old else item for item in value]


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):  # type: ignore[misc]  # two stubs that differ
    """Imports one module with a mistake in it."""

    def __init__(self, change: Change) -> None:
        parts = change.path.relative_to(SOURCE).with_suffix("").parts
        super().__init__(".".join(parts), str(change.path))
        self._code = compile(changed(change), str(change.path), "exec")

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Ours for that one module."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_code(self, _fullname: str) -> types.CodeType:
        """The changed code."""
        return self._code


def outcome(change: Change) -> int:
    """Whether the tests of its folder notice the mistake; those of its file are asked first."""
    own = tests_of(change.path)
    for tests in (own, own.parent):
        found = _forked(lambda tests=tests: _tested(change, tests))  # type: ignore[misc]
        if found != SURVIVED:
            return found
    return SURVIVED


def _tested(change: Change, tests: Path) -> int:
    sys.meta_path.insert(0, _Changed(change))
    import pytest

    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--timeout=60", str(tests)])
    return SURVIVED if code == pytest.ExitCode.OK else KILLED


def _forked(work: Callable[[], int]) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = BROKEN
        try:
            code = work()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else KILLED


def main(arguments: Sequence[str]) -> int:
    """The command; prints what survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="rules with this in their path")
    asked = parser.parse_args(arguments)
    os.chdir(ROOT)
    for name in HEAVY:
        importlib.import_module(name)
    files = [p for p in rule_files() if asked.only in str(p)]
    everything = [change for path in files for change in changes(path)]
    sample = random.Random(asked.seed).sample(everything, min(asked.sample, len(everything)))
    counts = {SURVIVED: 0, KILLED: 0, BROKEN: 0}
    began_s = time.monotonic()
    for change in sample:
        found = outcome(change)
        counts[found] = counts.get(found, 0) + 1
        if found != KILLED:
            print(f"{'SURVIVED' if found == SURVIVED else 'BROKEN'} {change}", flush=True)
    took_s = time.monotonic() - began_s
    print(
        f"{len(sample)} of {len(everything)} mistakes tried in {took_s:.0f} s: "
        f"{counts[KILLED]} noticed, {counts[SURVIVED]} not, {counts[BROKEN]} could not be tried"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
