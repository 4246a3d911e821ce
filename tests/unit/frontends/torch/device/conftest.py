"""The device is registered once for the process, before the first test that asks for it."""

import pytest


@pytest.fixture
def npu() -> str:
    """The device's name; it computes on `cpu`, lazily."""
    pytest.importorskip("torch")
    import xladev.torch

    xladev.torch.register("npu", platform="cpu")
    xladev.torch.step()
    xladev.torch.report().clear()
    return "npu"
