"""Graphs show transfers, once for each device, and constants where they are read."""

from xladev.compiler.partition.assignment import Assignment
from xladev.compiler.placement.notation import parse_placed
from xladev.compiler.placement.placed_graph import placed_graph, placed_text
from xladev.hlo.text import parse_module

TEXT = """HloModule m
ENTRY e { x = f32[8,4] parameter(0)
  one = f32[] constant(1)
  ones = f32[8,4] broadcast(one), dimensions={}
  a = f32[8,4] sine(x)
  b = f32[8,4] add(a, ones)
  c = f32[8,4] multiply(a, x), control-predecessors={b}
  ROOT r = (f32[8,4], f32[8,4]) tuple(b, c) }"""
WANT = """\
n0 = parameter[T=f32, dims=8x4, name=x, device=cpu:0]()
n1 = constant[T=f32, name=one, device=npu:0]()
n2 = broadcast[T=f32, dims=8x4, name=ones, device=npu:0](n1)
n3 = sine[T=f32, dims=8x4, name=a, device=cpu:0](n0)
n4 = Transfer[T=f32, dims=8x4, source=cpu:0, device=npu:0](n3)
n5 = add[T=f32, dims=8x4, name=b, device=npu:0](n4, n2)
n6 = Transfer[T=f32, dims=8x4, source=cpu:0, device=npu:0](n0)
n7 = multiply[T=f32, dims=8x4, name=c, device=npu:0](n4, n6) @ n5
n8 = Transfer[T=f32, dims=8x4, source=npu:0, device=cpu:0](n5)
n9 = Transfer[T=f32, dims=8x4, source=npu:0, device=cpu:0](n7)
n10 = Result[device=cpu:0](n8, n9)
"""


def test_a_graph_with_transfers() -> None:
    module = parse_module(TEXT)
    where = {"ones": "npu", "a": "cpu", "b": "npu", "c": "npu"}
    devices = {i: where[i.name] for i in module.entry.instructions if i.name in where}
    names = {"cpu": "cpu:0", "npu": "npu:0"}
    text = placed_text(module, Assignment(devices, ()), names)
    assert text == f"# e\n{WANT}"
    assert parse_placed(text) == placed_graph(module.entry, devices, names)
