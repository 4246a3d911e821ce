"""A broadcast of a vector is given to devices without broadcasts as a product with ones."""

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from xladev.compiler.description import DeviceDescription, Link
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.forms import FormingTarget
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

TEXT = """HloModule m
ENTRY e {{ x = {0}[5] parameter(0)  ROOT r = {0}[{1}] broadcast(x), dimensions={{{2}}} }}"""


def target(*refused: str, links: bool = True) -> CompileTarget:
    described = DeviceDescription(links={"host": Link(1e9)} if links else {})
    compiler = SubsetCompiler(Subset(lambda i: i.opcode not in refused))
    return FormingTarget.of(CompileTarget("subset", compiler, described))


@pytest.mark.parametrize(("dims", "along"), [("5,3", 0), ("3,5", 1), ("1,5", 1)])
@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_the_same_value(element_type: str, dims: str, along: int) -> None:
    module = parse_module(TEXT.format(element_type, dims, along))
    device = target("broadcast")
    assert device.supports(module.entry.root)
    made = device.formed(module)
    verify(made)
    assert made.entry.root.opcode == "dot"
    dtype = {"f32": np.float32, "f64": np.float64}[element_type]
    x = np.array([1.1, -2.7, np.inf, np.nan, 3e-39], dtype)
    np.testing.assert_array_equal(
        np.asarray(HloEvaluator().run(made, x)), np.asarray(HloEvaluator().run(module, x))
    )


@pytest.mark.parametrize("text", [
    TEXT.format("s32", "5,3", 0), TEXT.format("f32", "5,3,2", 0), TEXT.format("f32", "5", 0),
])  # fmt: skip
def test_what_has_no_form(text: str) -> None:
    assert not target("broadcast").supports(parse_module(text).entry.root)


def test_what_is_taken_stays() -> None:
    module = parse_module(TEXT.format("f32", "5,3", 0))
    assert target("sine").formed(module) is module


def test_without_products_or_links_there_is_none() -> None:
    root = parse_module(TEXT.format("f32", "5,3", 0)).entry.root
    assert not target("broadcast", "dot").supports(root)
    assert not target("broadcast", links=False).supports(root)
