"""`runnerscale api-server` with its objects in memory: `python -m benchmarks.memory_server WORDS`.

Only tests have it so; here it shows what the disk costs.
"""

from pathlib import Path
from unittest import mock

from runnerscale.apiserver.store import MemoryStore, Store
from runnerscale.cli.main import main


def _in_memory(_path: Path) -> Store:
    return MemoryStore()


if __name__ == "__main__":
    with mock.patch("runnerscale.apiserver.server.open_sqlite_store", _in_memory):
        main()
