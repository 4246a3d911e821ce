"""xladev-cuda on a path of its own, without a GPU, and gone again: what `xladev doctor` says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packaging" / "xladev-cuda"

BROKEN_CUPY = "raise ImportError('libcudart.so.13: cannot open shared object file')\n"


@pytest.fixture(scope="module", autouse=True)
def _needs_the_repository() -> None:
    if not PACKAGE.is_dir():
        pytest.skip("needs packaging/xladev-cuda")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders with the core and with the plugin, each installed for itself."""
    made = []
    for source in (ROOT, PACKAGE):
        folder = tmp_path_factory.mktemp("site")
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps",
            "--no-index", "--disable-pip-version-check", "--target", str(folder), str(source),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        made.append(folder)
    return made[0], made[1]


def doctor(*folders: Path) -> tuple[int, dict[str, dict[str, object]], list[str]]:
    """Exit status, platforms by name, and names of plugins, with these folders on the path."""
    code = "import sys; from xladev.cli.main import main; sys.exit(main(['doctor', '--json']))"
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONSAFEPATH": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, cwd=folders[0], capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    found = json.loads(done.stdout)
    platforms = {p["name"]: p for p in found["platforms"]}
    return done.returncode, platforms, [p["name"] for p in found["plugins"]]


def has_gpu() -> bool:
    from xladev.platforms.cuda.driver.cupy_driver import CupyDriver

    return CupyDriver().device_count() > 0


no_gpu = pytest.mark.skipif(has_gpu(), reason="there is a GPU")


@no_gpu
def test_core_and_plugin_on_different_paths(paths: tuple[Path, Path]) -> None:
    status, platforms, _ = doctor(*paths)
    assert status == 0
    assert {"cuda", "cuda_emu", "cpu"} <= set(platforms)
    assert platforms["cuda"]["devices"] == []
    assert platforms["cuda"]["failures"] == []


@no_gpu
def test_a_broken_cupy_is_said_and_breaks_nothing(paths: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text(BROKEN_CUPY)
    status, platforms, _ = doctor(*paths, tmp_path)
    assert status == 0
    assert "CuPy cannot be imported: libcudart.so.13" in str(platforms["cuda"]["driver"])
    assert platforms["cpu"]["devices"]


def test_the_plugin_taken_away_leaves_the_rest(paths: tuple[Path, Path]) -> None:
    """As after pip uninstall: its files are gone, and so is its entry point."""
    status, platforms, plugins = doctor(paths[0])
    if "cuda" in plugins:
        pytest.skip("xladev-cuda is installed in this environment, too")
    assert status == 0
    assert "cuda" not in platforms
    assert platforms["cpu"]["devices"]
