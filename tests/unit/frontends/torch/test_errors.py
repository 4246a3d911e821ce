"""Bad input and failing platforms: torch's usual classes, what, where, why and what next."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import xladev.client
from xladev import errors
from xladev.frontends.torch.errors import as_torch

pytestmark = pytest.mark.usefixtures("fresh")


def compiled(function: Callable[..., Any], platform: str = "cpu", **options: object) -> Any:
    return torch.compile(function, backend="xladev", options={"platform": platform, **options})


def has_four_parts(error: BaseException) -> bool:
    text = str(error)
    return "[" in text and all(f"  {part}: " in text for part in ("where", "why", "next"))


def told(call: Callable[[], Any], kind: type[BaseException], *words: str) -> Any:
    """The error that a call raises, which has our four parts and names these."""
    with pytest.raises(kind) as info:
        call()
    assert has_four_parts(info.value), info.value
    for word in words:
        assert word in str(info.value)
    return info.value


def with_histogram(x: Any) -> Any:
    return torch.histogram(x * 2, bins=4)[0]


def test_an_operator_that_is_not_lowered_with_fallback_off() -> None:
    f = compiled(with_histogram, strict=True)
    error = told(lambda: f(torch.rand(8)), torch._dynamo.exc.BackendCompilerFailed, "histogram",
                 "test_errors.py", "leave the option strict out")  # fmt: skip
    assert isinstance(error.inner_exception, NotImplementedError)
    assert isinstance(error.inner_exception, errors.UnsupportedError)


def test_the_place_is_the_users_where_a_default_device_is_set() -> None:
    """Torch's frames of such a device lie between the user's line and the operator."""
    f = compiled(with_histogram, strict=True)
    with torch.device("cpu"):
        told(lambda: f(torch.rand(8)), torch._dynamo.exc.BackendCompilerFailed, "test_errors.py")


def test_a_dtype_that_no_program_has() -> None:
    f = compiled(lambda x: x * x, strict=True)
    x = torch.rand(4, dtype=torch.complex64).to(torch.complex32)
    told(lambda: f(x), torch._dynamo.exc.BackendCompilerFailed, "complex32", "where: mul")


def test_a_tensor_of_another_device() -> None:
    f = compiled(lambda x: x * x, strict=True)
    told(lambda: f(torch.rand(4, device="meta")), torch._dynamo.exc.BackendCompilerFailed, "CPU")


def test_a_platform_that_does_not_exist() -> None:
    f = compiled(lambda x: x * x, platform="nowhere")
    error = told(lambda: f(torch.rand(4)), torch._dynamo.exc.BackendCompilerFailed, "nowhere")
    assert isinstance(error.inner_exception, errors.XladevError)


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_memory_that_no_machine_has(needs_gradient: bool) -> None:
    """A result of the program, and what the gradient needs of it, of more than 128 TiB."""
    f = compiled(lambda x: (x[:, None] * x[None, :]).sort(-1)[0])
    x = torch.rand(1 << 23, requires_grad=needs_gradient)
    error = told(lambda: f(x), torch.OutOfMemoryError, "cannot allocate", "smaller batches")
    assert isinstance(error, errors.OutOfMemoryError)
    assert torch.allclose(compiled(lambda x: x + 1)(x[:4]), x[:4] + 1)


class _Failing:
    """A program whose platform fails."""

    def __init__(self, run: Any, error: errors.XladevError) -> None:
        self.devices, self.program, self.error = run.devices, run.program, error

    def __call__(self, *args: Any, **_: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "usual"),
    [
        (errors.OutOfMemoryError("cannot allocate 8 bytes"), torch.OutOfMemoryError),
        (errors.DeviceLostError("npu:0 was lost"), torch.AcceleratorError),
        (errors.ExecutionError("kernel 3 failed"), torch.AcceleratorError),
    ],
)
@pytest.mark.parametrize("in_backward", [False, True])
def test_a_platform_that_fails(
    monkeypatch: pytest.MonkeyPatch,
    error: errors.XladevError,
    usual: type[Exception],
    in_backward: bool,
) -> None:
    real = xladev.client.compile
    made = []

    def compile_one(*args: Any) -> Any:
        run = real(*args)
        made.append(run)
        return _Failing(run, error) if len(made) == 1 + in_backward else run

    monkeypatch.setattr(xladev.client, "compile", compile_one)
    f = compiled(lambda x: x.sin().sum())
    raised = told(lambda: f(torch.rand(4, requires_grad=True)).backward(), usual, error.what)
    assert isinstance(raised, type(error)) and isinstance(raised, RuntimeError)
    assert raised.code == error.code


def test_every_class_of_ours_has_one_of_torch() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type)
             and issubclass(k, errors.XladevError)]  # fmt: skip
    for kind in kinds:
        made = as_torch(kind("what"))
        assert isinstance(made, kind) and isinstance(made, RuntimeError), kind
        assert type(as_torch(made)) is type(made)


@pytest.mark.long
def test_another_version_of_torch_is_one_message() -> None:
    script = """
import torch
torch.__version__ = "2.9.1"
try:
    torch.compile(lambda x: x + 1, backend="xladev")(torch.ones(2))
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ)
    )
    assert "torch 2.9.1 is installed" in done.stdout, done.stderr
    assert "pip install 'torch==2.13.0'" in done.stdout
    assert done.stdout.count("[UNSUPPORTED]") == 1
