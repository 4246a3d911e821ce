"""`make run` in examples/aot_mnist trains in C, here and under QEMU, without Python."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "aot_mnist"


def make(folder: Path, *words: str, commands: tuple[str, ...]) -> str:
    for command in ("make", *commands):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not here")
    done = subprocess.run(
        ["make", "--no-print-directory", "run",
         f"PYTHON={sys.executable}", f"OUT={folder}", *words],
        cwd=EXAMPLE, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.long
def test_trains_to_95_percent(tmp_path: Path) -> None:
    assert make(tmp_path, commands=("cc",)) == "test accuracy 95.6% after 500 steps"


@pytest.mark.long
@pytest.mark.rotating
@pytest.mark.parametrize(
    ("target", "compiler", "emulator"),
    [
        ("aarch64-linux-gnu", "aarch64-linux-gnu-gcc", "aarch64"),
        ("armv7-linux-gnueabihf", "arm-linux-gnueabihf-gcc", "arm"),
        ("riscv64-linux-gnu", "riscv64-linux-gnu-gcc", "riscv64"),
    ],
)
def test_trains_on_other_machines(
    target: str, compiler: str, emulator: str, tmp_path: Path
) -> None:
    runner = f"qemu-{emulator}-static"
    last = make(
        tmp_path, f"TARGET={target}", f"CC={compiler} -static", f"RUNNER={runner}",
        commands=(compiler, runner),
    )  # fmt: skip
    assert last == "test accuracy 95.6% after 500 steps"
