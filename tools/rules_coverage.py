"""Branch coverage of the rules, file by file: at least 95 % each, or the build fails.

Rules: every plan and stage of `controllers/<kind>/`, and the listener's pure files. Run after
`coverage run`; prints the table.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PERCENT_MIN = 95.0
SHELLS = {"__init__.py", "controller.py"}
LISTENER = ("scaler.py", "job_started.py")


def rule_files() -> list[str]:
    """Paths relative to the repository."""
    source = ROOT / "src" / "runnerscale"
    files = [p for p in source.glob("controllers/*/*.py") if p.name not in SHELLS]
    files += [source / "listener" / name for name in LISTENER]
    return sorted(p.relative_to(ROOT).as_posix() for p in files)


def main() -> int:
    """Print the table; 1 when a file is below the line."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "coverage", "json", "-q", "-o", str(report)]
        subprocess.run(command, cwd=ROOT, check=True)
        measured = json.loads(report.read_text())["files"]
    low = []
    print(f"{'rule':<68} {'lines+branches':>14}")
    for path in rule_files():
        summary = measured.get(path, {}).get("summary")
        percent = summary["percent_covered"] if summary else 0.0
        print(f"{path:<68} {percent:>13.1f}%")
        if percent < PERCENT_MIN:
            low.append(path)
    if low:
        print(f"below {PERCENT_MIN:.0f} %: {', '.join(low)}", file=sys.stderr)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
