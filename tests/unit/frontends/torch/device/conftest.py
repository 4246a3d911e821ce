"""The device is registered once for the process, before any test runs.

Torch counts devices when backward first runs: after tests of other folders it would be too late.
"""

import importlib.util

import pytest

if importlib.util.find_spec("torch"):
    import xladev.torch

    xladev.torch.register("npu", platform="cpu")


@pytest.fixture
def npu() -> str:
    """The device's name; it computes on `cpu`, lazily."""
    pytest.importorskip("torch")
    xladev.torch.step()
    xladev.torch.report().clear()
    return "npu"
