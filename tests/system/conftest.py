"""What waits for minutes runs only when it is asked for by its path: `make faults`."""

from pathlib import Path

import pytest

SLOW = Path(__file__).parent / "slow"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The slow ones stay out of a run of everything."""
    if not collection_path.is_relative_to(SLOW):
        return None
    asked = [Path(word.partition("::")[0]).resolve() for word in config.invocation_params.args
             if "slow" in str(word)]  # fmt: skip
    return None if any(path.is_relative_to(SLOW) for path in asked) else True
