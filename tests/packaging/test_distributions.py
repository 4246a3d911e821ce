"""The wheel holds every file, and two distributions on different paths share xladev/platforms/."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from xladev.platforms.cpu.shipped import LEVELS

ROOT = Path(__file__).parents[2]
DEMO = Path(__file__).parent / "xladev-demo"
MICROKERNELS = "xladev/platforms/cpu/microkernels"
CUDA = ROOT / "xladev" / "platforms" / "cuda"  # the distribution xladev-cuda

PROBE = """
import json, xladev, xladev.errors
from importlib import import_module, metadata
import xladev.platforms.demo.plugin as demo
entries = metadata.entry_points(group="xladev.platforms")
print(json.dumps({
    "core": xladev.__file__,
    "demo": demo.__file__,
    "namespace": getattr(xladev.platforms, "__file__", None),
    "entries": sorted(entry.name for entry in entries),
    "version": xladev.__version__,
    "metadata": metadata.version("xladev"),
}))
"""


def pip(*arguments: str) -> None:
    """Run pip with what is installed here: no build isolation, no index."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Source folder -> the wheel built from it."""
    built = {}
    for source in (ROOT, DEMO):
        folder = tmp_path_factory.mktemp("wheel")
        arguments = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
        pip("wheel", *arguments, str(source))
        (built[source],) = folder.glob("*.whl")
    return built


def install(source: Path, editable: bool, place: Path, wheels: dict[Path, Path]) -> str:
    """Install one distribution for itself under `place`; returns the folder to put on the path."""
    # --ignore-installed: this environment's own installation of xladev stays as it is.
    arguments = ("install", "--no-deps", "--ignore-installed", "--prefix", str(place))
    if editable:
        pip(*arguments, "--no-build-isolation", "--editable", str(source))
    else:
        pip(*arguments, str(wheels[source]))
    return sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)})


def probe(paths: list[str]) -> dict[str, object]:
    """Import both distributions from `paths`, in a child that has this environment's packages."""
    # site.addsitedir reads the .pth files that an editable installation consists of.
    code = f"import site\nfor path in {paths!r}: site.addsitedir(path)\n" + PROBE
    packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    done = subprocess.run(
        # -S: this environment's own .pth files, thus its own xladev, stay out of sight.
        [sys.executable, "-S", "-c", f"import sys\nsys.path += {packages!r}\n" + code],
        capture_output=True, text=True, timeout=120, cwd=Path(paths[0]).anchor,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_wheel_holds_every_file(wheels: dict[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[ROOT]) as wheel:
        packed = {name for name in wheel.namelist() if name.startswith("xladev/")}
    source = {
        path.relative_to(ROOT).as_posix().replace("tests/conformance/", "xladev/conformance/")
        for folder in ("xladev", "tests/conformance")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix not in (".pyc", ".objects")
        and not path.is_relative_to(CUDA)
    }
    shipped = {name for name in packed if name.endswith(".objects")}
    assert packed - shipped == source
    assert shipped == {f"{MICROKERNELS}/{level.name}.objects" for level in LEVELS}
    assert "xladev/py.typed" in packed
    assert "xladev/platforms/__init__.py" not in packed


@pytest.mark.long
def test_wheel_is_pure_and_licensed(wheels: dict[Path, Path]) -> None:
    assert wheels[ROOT].name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheels[ROOT]) as wheel:
        names = {name.rpartition("/")[2] for name in wheel.namelist() if ".dist-info/" in name}
    assert {"LICENSE", "NOTICE", "entry_points.txt"} <= names


@pytest.mark.long
@pytest.mark.parametrize("core_editable", [False, True], ids=["core-wheel", "core-editable"])
@pytest.mark.parametrize("demo_editable", [False, True], ids=["demo-wheel", "demo-editable"])
def test_two_distributions_on_different_paths(
    core_editable: bool, demo_editable: bool, tmp_path: Path, wheels: dict[Path, Path]
) -> None:
    core = install(ROOT, core_editable, tmp_path / "core", wheels)
    demo = install(DEMO, demo_editable, tmp_path / "demo", wheels)
    for paths in ([core, demo], [demo, core]):
        found = probe(paths)
        assert Path(str(found["core"])).is_relative_to(ROOT if core_editable else core)
        assert Path(str(found["demo"])).is_relative_to(DEMO if demo_editable else demo)
        assert found["namespace"] is None
        assert {"cpu", "interpreter", "demo"} <= set(found["entries"])
        assert found["version"] == found["metadata"]


COLLECT = """
import os, site, sys
site.addsitedir(sys.argv[1])
import pytest
os.chdir(sys.argv[2])
sys.exit(pytest.main(["-q", "--co", "-p", "no:cacheprovider", "--pyargs", "xladev.conformance",
                      "-k", "popcnt or copies"]))
"""


@pytest.mark.long
@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_the_conformance_suite_comes_with_xladev(
    editable: bool, tmp_path: Path, wheels: dict[Path, Path]
) -> None:
    place = install(ROOT, editable, tmp_path / "core", wheels)
    packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    code = f"import sys\nsys.path += {packages!r}\n{COLLECT}"
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, place, str(empty)],
        capture_output=True, text=True, timeout=120,
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTEST_ADDOPTS")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ids = [line for line in done.stdout.splitlines() if "::" in line]
    assert "conformance/elementwise_unary.py::popcnt-s32" in ids
    assert "conformance/memory.py::copies-of-every-size-come-back" in ids
    assert all(line.startswith("conformance/") for line in ids)
