"""A reconciler whose every plan is checked, wherever a pass makes it."""

from collections.abc import Callable
from typing import Any


class Checked:
    """In the reconciler's place. `plan`: what makes its plans; `check`: raises for a bad one."""

    def __init__(
        self, inner: Any, plan: Callable[[Any], Any], check: Callable[[Any, Any], None]
    ) -> None:
        self._inner, self._plan, self._check = inner, plan, check

    def plan(self, seen: Any) -> Any:
        """Checked, and then made by the reconciler itself."""
        self._check(seen, self._plan(seen))
        return self._inner.plan(seen)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
