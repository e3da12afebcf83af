"""What is installed from a wheel carries its data files: not only a checkout works."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]
TOLD = "githubConfigUrl: https://github.com/my-org\ngithubConfigSecret: x\nmaxRuners: 1\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a wheel of this checkout, as an installer lays them down."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_every_file_of_the_package_is_in_the_wheel(installed: Path) -> None:
    source = ROOT / "src"
    files = {
        path.relative_to(source)
        for path in (source / "runnerscale").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    there = {path.relative_to(installed) for path in installed.rglob("*") if path.is_file()}
    assert files <= there
    assert Path("runnerscale/chart_values/charts.json") in there


def test_values_check_works_from_a_wheel(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(TOLD)
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import runnerscale.cli.main as m;"
        "assert m.__file__.startswith(sys.path[0]), m.__file__; sys.exit(m.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(installed), "values", "check", "values.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "values.yaml:3: maxRuners is not a value of this chart" in done.stdout
