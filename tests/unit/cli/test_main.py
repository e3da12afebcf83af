"""Which commands import what: seen from outside, in a process of their own."""

import subprocess
import sys

import pytest

ASK = """
import sys
from runnerscale.cli.main import run
try:
    run("runnerscale", [sys.argv[1], "--help"])
except SystemExit:
    pass
print("heavy:", *sorted({"pygments", "markdown_it", "cyclopts", "aiohttp"} & set(sys.modules)))
"""


@pytest.mark.parametrize("command", ["controller", "listener"])
def test_the_commands_of_the_image_draw_nothing(command: str) -> None:
    # rich brings pygments with it, for 4 MiB in each listener; cyclopts is for people; aiohttp,
    # 10 MiB, is for proxies and for what is served (ADR 18).
    done = subprocess.run(
        [sys.executable, "-c", ASK, command], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy:"
