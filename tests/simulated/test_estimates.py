"""Estimates against the time of simulated machines, and choices against single devices.

Rates are measured on each machine by the SDK's small programs; the programs here are others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.conftest import PROGRAMS
from tests.simulated.chip import Chip
from tests.simulated.machine import Clock, machine, wait_for_devices
from tests.simulated.machines import MACHINES
from tests.tools.programs import ExportedProgram, program_names
from xladev.client import compile, find_device, host_targets
from xladev.compiler.cache.store import Store
from xladev.compiler.compile import compile_recorded
from xladev.compiler.description import Link
from xladev.compiler.options import CompileOptions
from xladev.compiler.placement.kept_rates import keep_rates
from xladev.profiling.calibration import measure_rates
from xladev.runtime.array import put
from xladev.runtime.registry import Registry, using_registry

QUICK = (
    "conv_variants", "gpt2_decode_step", "mlp_bf16_train", "mlp_forward", "mnist_softmax_train",
    "torch_lstmcell_forward", "torch_mlp_forward", "torch_transformer_forward",
    "transformer_block_fwd_bwd",
)  # fmt: skip
SLOW = ("collectives_shard_map", "cnn_train_adam_dropout", "rng_threefry", "resnet8_train")
"""Eight devices; minutes on the evaluator, or half of one."""
NAMES = [name for name in program_names(PROGRAMS) if name not in SLOW]


class Row(NamedTuple):
    """One program on one machine; microseconds.

    Attributes:
        placement: ``chosen``, or a device that has all of it.
        estimate: of a run.
        time: of a run.
    """

    program: str
    placement: str
    estimate: float
    time: float

    @property
    def error(self) -> float:
        """How many times too long or too short the estimate is."""
        return max(self.estimate / self.time, self.time / self.estimate)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path))
    return Store(tmp_path)


def rows(registry: Registry, clock: Clock, store: Store, names: list[str]) -> Iterator[Row]:
    """Each program placed by the SDK, and on each device alone, all from the host's memory."""
    with using_registry(registry):
        devices = [f"{d.name}" for d in registry.devices()]
        for device in registry.devices():
            target = registry.platform(device.platform).compile_target(None)
            assert keep_rates(target, measure_rates(device, clock), store)
        for name in names:
            program = ExportedProgram(PROGRAMS, name)
            yield _row(registry, clock, program, "chosen", CompileOptions(devices=tuple(devices)))
            for device in devices:
                rule = (("*", device),)
                alone = CompileOptions(devices=("host:0", device), placement=rule)
                yield _row(registry, clock, program, device, alone)


def _row(
    registry: Registry, clock: Clock, program: ExportedProgram, how: str, options: CompileOptions
) -> Row:
    module, host = program.module(), registry.platform("host")
    target = host.compile_target(None)
    hosts = partial(host_targets, registry, host)
    record = compile_recorded(
        module, target, options, hosts, partial(find_device, registry, host, target)
    )
    executable = compile(module, "host", options)
    arguments = [put(registry.devices("host")[0], value) for value in program.inputs()]
    wait_for_devices(registry)
    begin = clock.now
    executable(*arguments)
    wait_for_devices(registry)
    (_, seconds), *_ = record.assignment.estimates
    return Row(program.name, how, seconds * 1e6, (clock.now - begin) * 1e6)


def check(found: list[Row], least_gains: int) -> None:
    """Holds estimates and choices of one machine to what is asked."""
    mean = math.exp(sum(math.log(row.error) for row in found) / len(found))
    assert mean <= 1.25, found
    gains = 0
    for program in dict.fromkeys(row.program for row in found):
        chosen, *alone = (row.time for row in found if row.program == program)
        assert chosen <= 1.02 * min(alone), (program, chosen, alone)
        gains += chosen < 0.98 * min(alone)
    assert gains >= least_gains, found


@pytest.mark.long
@pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")
@pytest.mark.parametrize("name", MACHINES)
def test_estimates_and_choices(name: str, cache: Store) -> None:
    registry, clock = machine(*MACHINES[name])
    check(list(rows(registry, clock, cache, list(QUICK))), 0)


@pytest.mark.rotating
@pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")
@pytest.mark.parametrize("name", MACHINES)
def test_all_programs(name: str, cache: Store) -> None:
    registry, clock = machine(*MACHINES[name])
    check(list(rows(registry, clock, cache, NAMES)), 0)


SIDE = 512
WIDE = f"""HloModule wide
ENTRY e {{ x = f32[{SIDE},{SIDE}] parameter(0)
  a = f32[{SIDE},{SIDE}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  a2 = f32[{SIDE},{SIDE}] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  a3 = f32[{SIDE},{SIDE}] dot(a2, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = f32[{SIDE},{SIDE}] dot(x, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  b2 = f32[{SIDE},{SIDE}] dot(b, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  b3 = f32[{SIDE},{SIDE}] dot(b2, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[{SIDE},{SIDE}] add(a3, b3) }}"""


def test_branches_are_given_to_devices_of_one_kind() -> None:
    """Two equal devices behind a quick link: each takes a branch, and a run takes less."""
    slow = Chip("npu", products=1e10, vector=2e11, bandwidth=2e11, link=Link(1e11, 1e-6), count=2)
    registry, clock = machine(slow)
    times = []
    for devices in (("npu:0",), ("npu:0", "npu:1")):
        with using_registry(registry):
            program = compile(WIDE.encode(), "npu", CompileOptions(devices=devices))
            x = put(registry.devices("npu")[0], np.full((SIDE, SIDE), 1 / SIDE, np.float32))
            wait_for_devices(registry)
            begin = clock.now
            program(x)
            wait_for_devices(registry)
            times.append(clock.now - begin)
    assert times[1] < 0.6 * times[0]
