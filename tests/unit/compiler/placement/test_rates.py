"""Work of kernels, and what rates make of it."""

import pytest

from xladev.compiler.description import DeviceDescription, Link, MemorySpace
from xladev.compiler.placement.rates import DeviceRates, Work, stated_rates, type_scale
from xladev.errors import FormatError
from xladev.hlo.text import parse_module

RATES = DeviceRates(1e-12, 1e-10, 1e-9, 1e-11, 4e-11, 1e-6, 2e-6, 3e-6, 4e-6, Link(1e9, 1e-5))


def work(line: str) -> Work:
    text = f"""HloModule m
    twice {{ a = f32[8,8] parameter(0)  t = f32[8,8] tanh(a)  ROOT r = f32[8,8] add(t, t) }}
    ENTRY e {{ x = f32[8,8] parameter(0)  y = s32[8,8] parameter(1)
      ROOT r = {line} }}"""
    return Work.of(parse_module(text).entry.root)


def test_products_and_others_are_apart() -> None:
    dot = work("f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}")
    assert (dot.products, dot.vector, dot.functions) == (1024, 0, 0)
    assert dot.nbytes == 512  # one operand, which is both
    assert work("f32[8,8] add(x, x)").vector == work("s32[8,8] add(y, y)").vector == 64
    assert work("f32[8,8] tanh(x)").functions == 64
    assert work("f32[8,8] transpose(x), dimensions={1,0}").rearranges
    assert work("s32[8,8] add(y, y)").element_type == "s32"


def test_a_fusion_reads_and_writes_once() -> None:
    found = work("f32[8,8] fusion(x), kind=kLoop, calls=twice")
    assert found == Work(0, 64, 64, 512, False, "f32")


def test_a_kernel_takes_operations_or_bytes_whichever_is_more() -> None:
    assert RATES.seconds(Work(vector=1000, nbytes=1)) == pytest.approx(1e-7)
    assert RATES.seconds(Work(vector=1000, nbytes=1), scale=2) == pytest.approx(2e-7)
    assert RATES.seconds(Work(vector=1, nbytes=1e6)) == pytest.approx(1e-5)
    assert RATES.seconds(Work(nbytes=1e6, rearranges=True)) == pytest.approx(4e-5)
    assert RATES.seconds(Work(products=1e6)) == pytest.approx(1e-6 + 3e-6)


def test_what_a_description_states() -> None:
    stated = DeviceDescription(
        peak_flops={"f32": 1e12, "bf16": 4e12},
        memory_spaces=(MemorySpace(bandwidth=1e11),),
        launch_overhead_s=5e-6,
    )
    found = stated_rates(stated)
    assert found.product_s == found.vector_s == 1e-12
    assert (found.byte_s, found.launch_s) == (1e-11, 5e-6)
    assert type_scale(stated, "bf16") == 0.25 and type_scale(stated, "s64") == 1
    assert stated_rates(DeviceDescription()).product_s > 0


def test_rates_are_read_as_they_were_written() -> None:
    assert DeviceRates.from_json(RATES.to_json()) == RATES


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"link": 3}', RATES.to_json()[:-1] + ', "a": 1}',
                                  RATES.to_json().replace("1e-12", "-1")])  # fmt: skip
def test_damaged_rates(text: str) -> None:
    with pytest.raises(FormatError, match="rates of a device"):
        DeviceRates.from_json(text)
