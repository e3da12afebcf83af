"""What a running process does, for somebody who debugs it: `--pprof-addr`, under Go's paths.

Plain text, and no values: stacks and names only, so no secret can be read here. Nothing is
measured unless somebody asks. Where it is served is decided in `app/controller_manager.py`.
"""

import asyncio
import gc
import sys
import threading
from collections import Counter
from types import FrameType
from urllib.parse import parse_qs

from runnerscale.core.page_server import Handler, Page, text_page

PROFILE_S = 10.0
PROFILE_MAX_S = 60.0
SAMPLE_PERIOD_S = 0.01
FRAMES_MAX = 64
TYPES_SHOWN = 50
INDEX = """/debug/pprof/goroutine         what every task and thread waits for
/debug/pprof/heap              how many objects of which type the collector knows
/debug/pprof/profile?seconds=  where the time goes: one line per stack, outermost first, with the
                               number of samples in it (a flame graph's "collapsed" form)
"""


def profile_pages() -> dict[str, Handler]:
    """The pages under `/debug/pprof/`."""
    profiling = asyncio.Lock()

    async def profile(query: str) -> Page:
        asked = parse_qs(query).get("seconds", [str(PROFILE_S)])[0]
        try:
            seconds = float(asked)
        except ValueError:
            seconds = 0.0
        if not SAMPLE_PERIOD_S <= seconds <= PROFILE_MAX_S:
            text = f"seconds is {asked!r}; use a number up to {PROFILE_MAX_S:.0f}\n"
            return text_page(text, 400)
        if profiling.locked():
            return text_page("a profile is being taken; ask again later\n", 409)
        async with profiling:
            thread = threading.get_ident()
            samples = round(seconds / SAMPLE_PERIOD_S)
            stacks = await asyncio.to_thread(sample, thread, samples=samples)
        return text_page("".join(f"{stack} {n}\n" for stack, n in stacks.most_common()))

    return {
        "/debug/pprof/": lambda _query: text_page(INDEX),
        "/debug/pprof/goroutine": lambda _query: text_page(waiting()),
        "/debug/pprof/heap": lambda _query: text_page(objects()),
        "/debug/pprof/profile": profile,
    }


def waiting() -> str:
    """Every task of this loop with its stack, then every thread."""
    parts = []
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        stack = [_place(frame) for frame in task.get_stack(limit=FRAMES_MAX)]
        parts.append("\n  ".join([f"task {task.get_name()}", *stack]))
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        stack = list(_stack(frame))
        parts.append("\n  ".join([f"thread {names.get(ident, ident)}", *stack]))
    return "\n\n".join(parts) + "\n"


def objects() -> str:
    """The commonest types; structs that the collector need not know are not among them."""
    counted = Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())
    rows = [f"{number:>9} {name}" for name, number in counted.most_common(TYPES_SHOWN)]
    return "\n".join([f"{sum(counted.values()):>9} in all", *rows]) + "\n"


def sample(thread: int, *, samples: int) -> Counter[str]:
    """Look at a thread's stack again and again; called in another thread."""
    never = threading.Event()
    stacks: Counter[str] = Counter()
    for _ in range(samples):
        never.wait(SAMPLE_PERIOD_S)
        frame = sys._current_frames().get(thread)
        if frame is not None:
            stacks[";".join(_stack(frame))] += 1
    return stacks


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    """Outermost first."""
    found: list[str] = []
    while frame is not None and len(found) < FRAMES_MAX:
        found.append(_place(frame))
        frame = frame.f_back
    return tuple(reversed(found))


def _place(frame: FrameType) -> str:
    code = frame.f_code
    module = frame.f_globals.get("__name__", "?")
    return f"{module}.{code.co_qualname}:{frame.f_lineno}"
