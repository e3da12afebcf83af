"""Which messages were counted already, so that one that comes twice counts once.

A message comes again when its acknowledgement was lost or the session changed. Its effects
are harmless then, but a counter would grow. Within one process, and bounded: ids only grow, so
an old one that fell out is not coming back.
"""

MESSAGES_MAX = 1000


class SeenMessages:
    """The ids of the last messages that were counted."""

    def __init__(self) -> None:
        """None yet."""
        self._ids: dict[int, None] = {}

    def is_new(self, message_id: int) -> bool:
        """Whether it was not counted yet."""
        return message_id not in self._ids

    def add(self, message_id: int) -> None:
        """It is counted now."""
        self._ids[message_id] = None
        while len(self._ids) > MESSAGES_MAX:
            del self._ids[next(iter(self._ids))]
