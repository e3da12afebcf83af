"""How a process of ours runs: its event loop, its signals, its exit code.

uvloop is chosen here and nowhere else (it cannot run on virtual time). SIGTERM and SIGINT cancel
the work once; what it cleans up is its own affair, within its own bounds.
"""

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable
from importlib.util import find_spec

from runnerscale.app.file_limit import raise_file_limit, watch_files
from runnerscale.app.stall_watch import StallWatch, threshold_s
from runnerscale.core.clock import SystemClock

# Caches of slim structs make few cycles: collect rarely (libraries.md, section 2, "GC").
GC_THRESHOLDS = (20_000, 50, 100)


def run_process(work: Callable[[], Awaitable[int]], *, own_signals: bool = True) -> int:
    """Run `work` until it returns or a signal stops it; its exit code (0 when stopped).

    `own_signals` False: the work handles its signals itself.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    raise_file_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_watched(_until_signalled if own_signals else _plainly, work))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


async def _watched(
    manner: Callable[[Callable[[], Awaitable[int]]], Awaitable[int]],
    work: Callable[[], Awaitable[int]],
) -> int:
    loop = asyncio.get_running_loop()
    watching = [loop.create_task(watch_files(SystemClock()))]
    over_s = threshold_s(os.environ)
    if over_s is not None:
        watching.append(loop.create_task(StallWatch(over_s, clock=SystemClock()).run()))
    try:
        return await manner(work)
    finally:
        for task in watching:
            task.cancel()


async def _plainly(work: Callable[[], Awaitable[int]]) -> int:
    return await work()


async def _until_signalled(work: Callable[[], Awaitable[int]]) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work())
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if stopped:
            return 0
        raise
