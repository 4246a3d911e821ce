"""The largest elements along a dimension that is cut: chosen in parts, and of these again."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.spmd.local_builder import LocalBuilder

CALLS = {
    "the opcode": "topk(x), k={k}",
    "the smallest": "topk(x), k={k}, largest=false",
    "a call": 'custom-call(x), custom_call_target="TopK"',
}


def program(call: str, n: int, k: int, element_type: str = "f32") -> HloModule:
    return parse_module(f"""HloModule m, num_partitions=4
ENTRY e {{
  x = {element_type}[3,{n}] parameter(0), sharding={{devices=[1,4]<=[4]}}
  ROOT r = ({element_type}[3,{k}], s32[3,{k}]) {CALLS[call].format(k=k)},
    sharding={{{{replicated}}, {{replicated}}}}
}}""")


def received(module: HloModule) -> int:
    """Elements of the arrays that are joined."""
    return sum(i.shape.size for i in module.entry.instructions if i.opcode == "all-gather")


def elements(n: int, values: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, values, (3, n)).astype(np.float32)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("values", [1000, 3])  # of few values, equals are many
def test_parts_choose(call: str, values: int) -> None:
    module = program(call, 32, 5)
    assert received(check(module, [elements(32, values)], 4).module) == 2 * 3 * 4 * 5


def test_special_values() -> None:
    x = elements(32, 3)
    x[:, ::5], x[:, 1::7], x[0, 2] = np.nan, -np.inf, -0.0
    check(program("the opcode", 32, 8), [x], 4)


@pytest.mark.parametrize(("n", "k"), [(32, 9), (30, 5)])
def test_too_few_elements_or_padding_are_joined(n: int, k: int) -> None:
    assert received(check(program("a call", n, k), [elements(n, 9)], 4).module) != 2 * 3 * 4 * k


@pytest.mark.parametrize("name", ["start", "all_gather"])
def test_mistakes_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices of a part are not those of the whole; parts are in the order of devices."""
    right = getattr(LocalBuilder, name)

    def start(b: LocalBuilder, *arguments: object) -> object:
        return b.multiply(right(b, *arguments), 0)

    def all_gather(b: LocalBuilder, x: object, *rest: object) -> object:
        return b.op("reverse", right(b, x, *rest), dimensions=(1,))

    monkeypatch.setattr(LocalBuilder, name, {"start": start, "all_gather": all_gather}[name])
    with pytest.raises(AssertionError):
        check(program("the opcode", 32, 5), [elements(32, 3)], 4)
