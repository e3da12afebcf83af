"""Text that must never be printed by accident."""


class SecretText:
    """A token, key or JIT config. `repr`, `str` and format show stars; `reveal` is explicit.

    Compares and hashes by content, so it can be part of a cache key.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Wrap `text`."""
        self._text = text

    def reveal(self) -> str:
        """The text itself: only for the line that sends or stores it."""
        return self._text

    def __bool__(self) -> bool:
        """Whether there is any text."""
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and other._text == self._text

    def __hash__(self) -> int:
        return hash(("SecretText", self._text))

    def __repr__(self) -> str:
        return "SecretText(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "***"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")
