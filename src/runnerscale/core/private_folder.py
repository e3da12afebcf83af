"""Folders that only their owner may enter.

`Path.mkdir(mode=0o700, parents=True)` gives that mode to the last folder only: those on the way
are made as the umask says, and anybody may look into them.
"""

from pathlib import Path

MODE = 0o700


def make_private(folder: Path) -> None:
    """Make the folder and what is missing above it; what is there stays as it is.

    Raises:
        OSError: it cannot be made.
    """
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        each.mkdir(mode=MODE, exist_ok=True)
