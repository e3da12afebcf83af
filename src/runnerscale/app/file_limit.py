"""File descriptors of a process: as many as it may have, and a word when they run out.

Each connection, watch and container is one. When there are none left, new connections are cut and
nobody is told why; what is connected goes on. So it is said here, with the remedy.
"""

import errno
import os
import resource

import structlog

from runnerscale.core.clock import Clock

log = structlog.get_logger(__name__)

FILES_MAX = 65_536
LOOK_EVERY_S = 5.0
SCARCE = 0.9  # of the limit
PLENTY = 0.7  # from here on the next shortage is news again
FOLDER = "/proc/self/fd"
OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})


def raise_file_limit() -> None:
    """The usual soft limit of 1,024 is for programs with `select`; we may have the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def watch_files(clock: Clock) -> None:
    """Until cancelled: say it once when they run out, and again after it had been well."""
    told = False
    while True:
        used, limit = used_files()
        if used >= limit * SCARCE and not told:
            told = True
            log.error(
                "file descriptors run out, new connections may be refused",
                used=used,
                limit=limit,
                remedy="raise the limit (ulimit -n, LimitNOFILE=), or find who opens so many"
                " connections",
            )
        elif used < limit * PLENTY:
            told = False
        await clock.sleep(LOOK_EVERY_S)


def used_files() -> tuple[int, int]:
    """How many are open, and how many may be; where nobody knows, none are."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        return len(os.listdir(FOLDER)), limit  # noqa: PTH208 - names are enough
    except OSError as error:
        return (limit if error.errno in OUT_OF_FILES else 0), limit
