"""Every collective, run by the SDK on four devices, gives what the evaluator's devices give."""

import re

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.errors import XladevError
from xladev.hlo.devices import Topology
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.text import parse_module
from xladev.runtime.collectives.collective_table import COLLECTIVES as KINDS
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.communicator import Communicator
from xladev.runtime.platform import Platform

COMPUTATIONS = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
biggest { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(b, a) }
odd { a = f32[] parameter(0)  b = f32[] parameter(1)
  n = f32[] negate(b)  ROOT c = f32[] maximum(a, n) }
"""

COLLECTIVES = {
    "all-reduce": "f32[4,2] all-reduce(x), channel_id=1, to_apply=add",
    "all-reduce of groups": "f32[4,2] all-reduce(x), replica_groups={{0,2},{3,1}},"
    " to_apply=biggest",
    "all-reduce by evaluation": "f32[4,2] all-reduce(x), channel_id=1, to_apply=odd",
    "all-reduce of several": "(f32[4,2], f32[4,2]) all-reduce(x, y), channel_id=1, to_apply=add",
    "flattened": "f32[4,2] all-reduce(x), channel_id=1, use_global_device_ids=true,"
    " replica_groups={{0,1},{2,3}}, to_apply=add",
    "all-gather": "f32[16,2] all-gather(x), replica_groups={}, dimensions={0}",
    "all-gather of the last": "f32[4,4] all-gather(x), replica_groups={{0,1},{2,3}},"
    " dimensions={1}",
    "reduce-scatter": "f32[1,2] reduce-scatter(x), replica_groups={{3,2,1,0}}, dimensions={0},"
    " to_apply=add",
    "all-to-all": "f32[4,2] all-to-all(x), replica_groups={{0,1,2,3}}, dimensions={0}",
    "all-to-all of operands": "(f32[4,2], f32[4,2]) all-to-all(x, y), replica_groups={{1,0},{2,3}}",
    "collective-permute": "f32[4,2] collective-permute(x), source_target_pairs={{0,1},{1,3},{3,0}}",
    "a slice": "f32[6,2] collective-permute(x, out, here, there),"
    " source_target_pairs={{0,1},{1,3}}, slice_sizes={{1,2}}",
    "slices": "f32[6,2] collective-permute(x, out, two_here, two_there),"
    " source_target_pairs={{0,1},{1,3},{3,0}}, slice_sizes={{1,2},{1,1}}",
    "collective-broadcast": "f32[4,2] collective-broadcast(x), replica_groups={{2,1},{0,3}}",
    "some in no group": "f32[4,2] collective-broadcast(x), replica_groups={{2,1}}",
    "all-reduce of some": "f32[4,2] all-reduce(x), replica_groups={{2,1}}, to_apply=add",
    "dynamic root": "f32[4,2] collective-broadcast(x, one), replica_groups={{2,1},{0,3}},"
    " has_dynamic_root=true",
    "collective-reduce": "f32[4,2] collective-reduce(x), replica_groups={{2,1,0,3}}, to_apply=add",
    "ragged-all-to-all": "f32[6,2] ragged-all-to-all(x, out, starts, sizes, starts, sizes),"
    " replica_groups={{3,2,1,0}}",
}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_collective(name, asynchronous):
    check_collective(name, asynchronous)


def check_collective(name, asynchronous=False):
    """Runs it on four devices, and compares with the evaluator's."""
    text = (
        f"HloModule m, replica_count=4\n{COMPUTATIONS}\n"
        "ENTRY main {\n x = f32[4,2] parameter(0)\n y = f32[4,2] negate(x)\n"
        " one = s32[1] constant({1})\n"
        " starts = s32[4] constant({0,1,2,3})\n sizes = s32[4] constant({1,1,1,1})\n"
        " half = f32[] constant(0.5)\n out = f32[6,2] broadcast(half), dimensions={}\n"
        " replica = u32[] replica-id()\n id = s32[] convert(replica)\n zero = s32[] constant(0)\n"
        " here = (s32[], s32[]) tuple(id, zero)\n two = s32[] constant(2)\n"
        " there = (s32[], s32[]) tuple(two, zero)\n"
        " two_here = ((s32[], s32[]), (s32[], s32[])) tuple(here, there)\n"
        " two_there = ((s32[], s32[]), (s32[], s32[])) tuple(there, here)\n"
        f" ROOT r = {COLLECTIVES[name]}\n}}"
    )
    module = parse_module(text)
    rng = np.random.default_rng(1)
    arguments = [[rng.standard_normal((4, 2)).astype(np.float32)] for _ in range(4)]
    want = evaluate_replicated(module, arguments, topology=Topology(4, 1))
    subset = Subset(lambda i: i.op.category != "collective", asynchronous, device_count=4)
    with subset_registry(subset):
        got = client.compile(module, "subset").run_on_devices(arguments)
    for mine, wanted in zip(got, want, strict=True):
        pairs = zip(mine, wanted, strict=True) if isinstance(wanted, tuple) else [(mine, wanted)]
        for array, value in pairs:
            np.testing.assert_array_equal(array.numpy(), value)


class Whole(Communicator):
    """Written for version 1.0: every function of the contract is its own."""

    def __init__(self, devices):
        self.through = HostCommunicator(devices)
        self.called = set()

    @property
    def size(self):
        return self.through.size

    def abort(self, run_id, error):
        self.through.abort(run_id, error)

    def all_reduce(self, who, operand, result, shape, reduction):
        self.called.add("all_reduce")
        self.through.all_reduce(who, operand, result, shape, reduction)

    def all_gather(self, who, operand, result, shape, dimension):
        self.called.add("all_gather")
        self.through.all_gather(who, operand, result, shape, dimension)

    def reduce_scatter(self, who, operand, result, shape, dimension, reduction):
        self.called.add("reduce_scatter")
        self.through.reduce_scatter(who, operand, result, shape, dimension, reduction)

    def all_to_all(self, who, operand, result, shape, split_dimension, concat_dimension):
        self.called.add("all_to_all")
        dimensions = split_dimension, concat_dimension
        self.through.all_to_all(who, operand, result, shape, *dimensions)

    def ragged_all_to_all(self, who, operand, result, shape, result_shape, slices):
        self.called.add("ragged_all_to_all")
        self.through.ragged_all_to_all(who, operand, result, shape, result_shape, slices)

    def collective_permute(self, who, operand, result, shape, pairs):
        self.called.add("collective_permute")
        self.through.collective_permute(who, operand, result, shape, pairs)

    def broadcast(self, who, operand, result, shape, root):
        self.called.add("broadcast")
        self.through.broadcast(who, operand, result, shape, root)

    def reduce(self, who, operand, result, shape, root, reduction):
        self.called.add("reduce")
        self.through.reduce(who, operand, result, shape, root, reduction)


class Derived(HostCommunicator):
    """Written for version 1.0: some functions are its own, and ask those of its base."""

    def __init__(self, devices):
        super().__init__(devices)
        self.called = set()

    def all_reduce(self, who, operand, result, shape, reduction):
        self.called.add("all_reduce")
        super().all_reduce(who, operand, result, shape, reduction)

    def all_gather(self, who, operand, result, shape, dimension):
        self.called.add("all_gather")
        super().all_gather(who, operand, result, shape, dimension)


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("kind", [Whole, Derived])
def test_a_communicator_of_version_1_0_is_called_by_its_functions(kind, name, monkeypatch):
    made = []

    def create_communicator(platform, devices):
        made.append(kind(devices))
        return made[-1]

    monkeypatch.setattr(Platform, "create_communicator", create_communicator)
    check_collective(name)
    (opcode,) = re.findall(r"([a-z-]+)\(x", COLLECTIVES[name])
    known = KINDS.get(opcode)
    function = "ragged_all_to_all" if known is None else known.function
    own = {function} if kind is Whole or function in vars(Derived) else set()
    assert set().union(*(each.called for each in made)) == own


def test_a_collective_in_a_loop_is_a_meeting_of_its_own_each_time():
    text = f"""
HloModule m, replica_count=2
{COMPUTATIONS}
condition {{ s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)  ROOT c = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)  next = s32[] add(i, one)
  x = f32[2] get-tuple-element(s), index=1
  t = f32[2] all-reduce(x), channel_id=1, to_apply=add
  ROOT r = (s32[], f32[2]) tuple(next, t) }}
ENTRY main {{ x = f32[2] parameter(0)  zero = s32[] constant(0)
  s = (s32[], f32[2]) tuple(zero, x)
  w = (s32[], f32[2]) while(s), condition=condition, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1 }}
"""
    subset = Subset(lambda i: i.op.category != "collective", device_count=2)
    with subset_registry(subset):
        executable = client.compile(parse_module(text), "subset")
        for _ in range(3):
            rows = executable.run_on_devices([[np.ones(2, np.float32)], [np.zeros(2, np.float32)]])
            for row in rows:
                np.testing.assert_array_equal(row.numpy(), np.full(2, 16, np.float32))


def test_alone_a_collective_is_the_operand():
    text = (
        f"HloModule m\n{COMPUTATIONS}\nENTRY main {{\n x = f32[4,2] parameter(0)\n"
        " ROOT r = f32[4,2] all-reduce(x), channel_id=1, to_apply=add\n}"
    )
    with subset_registry(Subset(lambda i: i.op.category != "collective")):
        x = np.ones((4, 2), np.float32)
        np.testing.assert_array_equal(client.compile(parse_module(text), "subset")(x).numpy(), x)


def test_groups_of_devices_that_are_not_there_are_refused():
    text = (
        f"HloModule m\n{COMPUTATIONS}\nENTRY main {{\n x = f32[4,2] parameter(0)\n"
        " ROOT r = f32[4,2] all-reduce(x), replica_groups={{0,1}}, to_apply=add\n}"
    )
    with (
        subset_registry(Subset(lambda i: i.op.category != "collective")),
        pytest.raises(XladevError, match=r"names devices that are not there, or twice: 1"),
    ):
        client.compile(parse_module(text), "subset")
