"""Random sequences on torch's device: they agree with the host's, and a wrong device is noticed."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

COMMAND = (sys.executable, "-m", "tests.tools.torch_device_sequences")
ROOT = Path(__file__).parents[3]

WRONG = """
import sys
import torch
from tests.tools import torch_device_sequences as sequences
original = torch.Tensor.mul_
def wrong(self, other):
    return original(self, other) if self.device.type == "cpu" else original(self, other).add_(1)
torch.Tensor.mul_ = wrong
sys.exit(sequences.main(["--count", "40"]))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


@pytest.mark.long
def test_sequences_agree() -> None:
    done = run(*COMMAND, "--count", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 sequences, 0 differ" in done.stdout


@pytest.mark.long
def test_a_write_that_goes_wrong_is_found() -> None:
    done = run(sys.executable, "-c", WRONG)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "on the host" in done.stdout
