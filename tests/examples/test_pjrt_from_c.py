"""A PJRT client in C: the library starts Python itself."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import xladev
from tests.tools.jax_child import PACKAGE, environment, library
from xladev.hlo.proto import write_module

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
TEXT = "ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)  ROOT r = f32[4] add(x, y) }"


def _libpython() -> Path:
    folder, name = (sysconfig.get_config_var(key) for key in ("LIBDIR", "INSTSONAME"))
    path = Path(folder or "") / (name or "")
    if ".so" not in path.name or not path.is_file():
        pytest.skip("this Python has no shared libpython")
    return path


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library()
    made = tmp_path_factory.mktemp("client") / "client"
    source = ROOT / "examples/pjrt_from_c/client.c"
    command = ["cc", "-Wall", "-Wextra", "-I", str(PACKAGE / "src"), str(source), "-ldl"]
    done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return made


def _run(client: Path, *words: str) -> subprocess.CompletedProcess[str]:
    variables = environment("") | {
        "XLADEV_LIBPYTHON": str(_libpython()),
        "PYTHONHOME": sys.base_prefix,
    }
    return subprocess.run(
        [str(client), str(library()), *words],
        env=variables, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("platform", ["cpu", "interpreter", "template_npu"])
def test_client_runs_a_module(client: Path, tmp_path: Path, platform: str) -> None:
    (tmp_path / "add.pb").write_bytes(write_module(xladev.parse(TEXT)))
    done = _run(client, platform, "hlo", str(tmp_path / "add.pb"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("devices: 11 22 33 44\n")


STABLEHLO = """
func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.add %x, %y : tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


def test_client_runs_stablehlo(client: Path, tmp_path: Path) -> None:
    if not importlib.util.find_spec("jaxlib"):
        pytest.skip("jaxlib is not installed: pip install 'xladev[jax]'")
    (tmp_path / "add.mlir").write_text(STABLEHLO)
    done = _run(client, "cpu", "mlir", str(tmp_path / "add.mlir"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("devices: 11 22 33 44\n")


def test_client_is_told_what_is_wrong(client: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.pb").write_bytes(b"no module")
    for words, why in (
        (("no_such", "hlo", "bad.pb"), "no platform or kind is called 'no_such'"),
        (("cpu", "hlo", "bad.pb"), "HLO_PROTO"),
        (("cpu", "spirv", "bad.pb"), "'spirv'"),
    ):
        done = _run(client, *words[:2], str(tmp_path / words[2]))
        assert done.returncode == 1 and why in done.stderr, done.stderr


def test_client_without_python_is_told_so(client: Path, tmp_path: Path) -> None:
    variables = dict(os.environ) | {"XLADEV_LIBPYTHON": str(tmp_path / "none.so")}
    done = subprocess.run(
        [str(client), str(library()), "cpu", "hlo", "x"],
        env=variables, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1 and "XLADEV_LIBPYTHON" in done.stderr, done.stderr
