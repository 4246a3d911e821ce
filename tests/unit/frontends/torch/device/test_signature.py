"""Numbers that are parameters of programs, and what is left to the host."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import xladev.torch
from xladev.frontends.torch.device.signature import SCALARS
from xladev.frontends.torch.lower.every import LOWERINGS

pytestmark = pytest.mark.usefixtures("npu")

CALLS: dict[str, Any] = {
    "add": lambda x, y, s: torch.stack([x + s, torch.add(x, y, alpha=s)]),
    "sub": lambda x, y, s: torch.stack([x - s, torch.sub(x, y, alpha=s)]),
    "rsub": lambda x, y, s: s - x,
    "mul and div": lambda x, y, s: torch.stack([x * s, x / s]),
    "lerp": lambda x, y, s: torch.lerp(x, y, s),
    "addcmul": lambda x, y, s: torch.addcmul(x, x, y, value=s),
    "addcdiv": lambda x, y, s: torch.addcdiv(x, x, y, value=s),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", CALLS)
def test_one_program_serves_all_numbers(name: str, dtype: Any) -> None:
    """Numbers that bfloat16 holds: torch's `sub` rounds alpha to it first, the device does not."""
    torch.manual_seed(0)
    x, y = torch.rand(5).to(dtype), torch.rand(5).to(dtype) + 1
    there, other = x.to("npu"), y.to("npu")
    for s in (0.25, 0.75, 2.5):
        found = CALLS[name](there, other, s).cpu()
        torch.testing.assert_close(found, CALLS[name](x, y, s))
    assert xladev.torch.report().compiled <= 1  # none, where a test before it compiled it


def test_every_such_operator_has_a_lowering() -> None:
    assert set(SCALARS) <= set(LOWERINGS)


def test_what_has_no_lowering_runs_on_the_host_and_is_counted() -> None:
    x = torch.tensor([3, 1, 3], device="npu")
    assert torch.unique(x).tolist() == [1, 3]
    assert "aten._unique2.default" in str(xladev.torch.report())
