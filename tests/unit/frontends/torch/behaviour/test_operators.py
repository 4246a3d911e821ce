"""Torch's operator database: first samples, forward and gradient; a tenth on each commit."""

import argparse

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

from tests.tools.torch_samples import entries, judge

TABLE = entries("float32")

WITH_GRADIENT = [n for n, op in TABLE.items() if op.supports_autograd and n != "to_sparse"]
"""AOTAutograd asserts on gradients of sparse results, whatever the backend."""

pytestmark = [pytest.mark.rotating, pytest.mark.long]


def judged(name: str, *, platform: str = "cpu", grad: bool = False, dtype: str = "float32") -> str:
    options = argparse.Namespace(dtype=dtype, grad=grad, platform=platform, samples=1)
    outcome, _, detail = judge(TABLE[name], options)
    assert outcome not in ("wrong", "error", "crash"), detail
    return outcome


@pytest.mark.parametrize("name", TABLE)
def test_forward(name: str) -> None:
    judged(name)


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_gradient(name: str) -> None:
    judged(name, grad=True)


@pytest.mark.parametrize("name", TABLE)
def test_on_npu(name: str) -> None:
    judged(name, platform="template_npu")
