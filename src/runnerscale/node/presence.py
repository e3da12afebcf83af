"""Whether this node is there: a lost one does nothing and says nothing, as if the cable were cut.

Only an injected fault (`faults.py`) makes it lost. Everything that acts asks here first.
"""

import asyncio


class Presence:
    """There, until told otherwise."""

    def __init__(self) -> None:
        """There."""
        self._there = asyncio.Event()
        self._there.set()

    @property
    def lost(self) -> bool:
        """Cut off."""
        return not self._there.is_set()

    def leave(self) -> None:
        """Be cut off from now on."""
        self._there.clear()

    def come_back(self) -> None:
        """Go on where it stopped."""
        self._there.set()

    async def wait(self) -> None:
        """Return when the node is there."""
        await self._there.wait()
