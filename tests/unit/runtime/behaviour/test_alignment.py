"""What kernels are given begins where the description says that it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.compiler.evaluating_backend import EvaluatingCompiler, EvaluatingExecutor
from tests.unit.compiler.nested_programs import nested_program
from tests.unit.compiler.sample_programs import LOOP_AND_BRANCH, loop_and_branch_arguments
from xladev import client
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.cache.program_cache import program_key
from xladev.compiler.cache.store import Store
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.errors import FormatError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloModule
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.text import parse_module
from xladev.runtime.executor import Kernel
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.host_executor import HostMemory, host_address
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.platform import Platform
from xladev.runtime.registry import Registry, using_registry
from xladev.runtime.stream import Stream
from xladev.testing.noise import leaves
from xladev.testing.random_inputs import random_arguments

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
SEVERAL = f"""HloModule several
ENTRY e {{ x = f32[3,3] parameter(0)
  big = f32[7] constant({{1, 2, 3, 4, 5, 6, 7}})
  small = f32[3,3] constant({{{{1, 2, 3}}, {{4, 5, 6}}, {{7, 8, 9}}}})
  a = f32[3,3] dot(x, small), {DOT}
  b = f32[3,3] dot(small, x), {DOT}
  c = f32[3,3] dot(x, x), {DOT}
  d = f32[3,3] dot(a, b), {DOT}
  f = f32[3,3] dot(b, c), {DOT}
  g = f32[3,3] dot(c, a), {DOT}
  h = f32[3,3] dot(d, f), {DOT}
  i = f32[3,3] dot(f, g), {DOT}
  j = f32[3,3] dot(g, d), {DOT}
  k = f32[9,3] concatenate(h, i, j), dimensions={{0}}
  l = f32[9,3] reverse(k), dimensions={{0}}
  ROOT t = (f32[3,3], f32[9,3], f32[9,3], f32[7]) tuple(i, k, l, big) }}"""
LOOP = f"""HloModule loop
on {{ p = (s32[], f32[3,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT }}
chain {{ x = f32[3,3] parameter(0)
  ROOT y = f32[3,3] dot(x, x), {DOT} }}
wide {{ x = f32[3,3] parameter(0)
  half = f32[3,3] constant({{{{0.5, 0, 0}}, {{0, 0.5, 0}}, {{0, 0, 0.5}}}})
  a = f32[3,3] dot(x, half), {DOT}
  b = f32[3,3] dot(half, x), {DOT}
  c = f32[3,3] dot(a, b), {DOT}
  d = f32[3,3] dot(b, a), {DOT}
  ROOT y = f32[3,3] dot(c, d), {DOT} }}
body {{ p = (s32[], f32[3,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[3,3] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[3,3] conditional(i, x, x), branch_computations={{wide, chain}}
  z = f32[3,3] dot(x, y), {DOT}
  ROOT t = (s32[], f32[3,3]) tuple(j, z) }}
ENTRY e {{ x = f32[3,3] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[3,3]) tuple(zero, x)
  ROOT end = (s32[], f32[3,3]) while(start), condition=on, body=body }}"""
X = np.arange(9, dtype=np.float32).reshape(3, 3) / 8


class Misplaced(AssertionError):
    """A kernel was given an address that it cannot use."""


@dataclass
class Chip:
    """A device that wants what its kernels are given at multiples of a number.

    Attributes:
        alignment: that it declares.
        checked: how many buffers its kernels were given.
        within: how many of those began behind the start of an allocation.
    """

    alignment: int
    checked: int = 0
    within: int = 0


class ChipCompiler(EvaluatingCompiler):
    """Every second kernel wants a workspace, of an odd size."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip

    @property
    def platform(self) -> str:
        return "chip"

    def describe(self, target: str | None = None) -> DeviceDescription:
        space = MemorySpace(alignment=self.chip.alignment)
        return DeviceDescription(target="chip", memory_spaces=(space,))

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        workspace = 72 if len(spec.name) % 2 else 0
        return replace(super().lower(spec, options), workspace_nbytes=workspace)


class ChipExecutor(EvaluatingExecutor):
    """Memory is aligned as it is asked for, and no better."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip

    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        raw = np.empty(nbytes + 3 * alignment, np.uint8)
        skip = (alignment - raw.ctypes.data) % (2 * alignment)
        data = raw[skip : skip + nbytes]
        assert data.ctypes.data % (2 * alignment) == alignment
        return DeviceMemory(self, HostMemory(data), 0, nbytes, memory_space)

    def launch_kernel(
        self,
        stream: Stream,
        kernel: Kernel,
        buffers: Sequence[DeviceMemory],
        dimensions: LaunchDimensions,
    ) -> None:
        for buffer in buffers:
            self.chip.checked += 1
            self.chip.within += buffer.offset > 0
            if host_address(buffer) % self.chip.alignment or buffer.offset % self.chip.alignment:
                raise Misplaced(f"{kernel.name}: {host_address(buffer):#x}, {buffer.offset}")
        entry: HloComputation = kernel.handle.entry
        used = len(entry.parameters) + len(flattened_shapes(entry.root.shape))
        super().launch_kernel(stream, kernel, buffers[:used], dimensions)


class ChipPlatform(Platform):
    """One device."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip

    def visible_device_count(self) -> int:
        return 1

    def create_executor(self, ordinal: int) -> ChipExecutor:
        return ChipExecutor(self.chip)


def registry_of(chip: Chip) -> Registry:
    registry = Registry(find=lambda: ())
    registry.register(
        PlatformSpec("chip", lambda: ChipPlatform(chip), compiler=lambda: ChipCompiler(chip))
    )
    return registry


@pytest.fixture(params=[64, 128, 256, 4096])
def chip(request: pytest.FixtureRequest) -> Iterator[Chip]:
    made = Chip(request.param)
    with using_registry(registry_of(made)):
        yield made


def check(module: HloModule, arguments: Sequence[Any], **options: Any) -> None:
    """It gives what the evaluator gives."""
    found = client.compile(module, "chip", CompileOptions(strict=True, **options))(*arguments)
    wanted = HloEvaluator().run(module, *arguments)
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("fusion", [True, False])
def test_constants_temporaries_and_results(chip: Chip, fusion: bool) -> None:
    check(parse_module(SEVERAL), [X], fusion=fusion)
    assert chip.checked > 20
    assert chip.within > 2


@pytest.mark.parametrize("fusion", [True, False])
def test_loops_and_branches(chip: Chip, fusion: bool) -> None:
    check(parse_module(LOOP), [X], fusion=fusion)
    assert chip.within > 2
    for which in range(3):
        check(parse_module(LOOP_AND_BRANCH), loop_and_branch_arguments(which), fusion=fusion)


@pytest.mark.parametrize("number", range(8))
def test_nested_programs(chip: Chip, number: int, seed: int) -> None:
    module = nested_program(seed * 100 + number)
    check(module, random_arguments(module, seed), fusion=number % 2 == 0)


def test_plans_of_another_alignment_have_keys_of_their_own() -> None:
    def key(*alignments: int) -> str:
        compiler = ChipCompiler(Chip(64))
        spaces = tuple(MemorySpace(alignment=n) for n in alignments)
        target = CompileTarget("chip", compiler, DeviceDescription(memory_spaces=spaces))
        return program_key(parse_module(SEVERAL), (target,), CompileOptions())

    assert key(64) == key(64)
    assert len({key(64), key(128), key(128, 64), key(64, 128)}) == 4


def test_a_cached_plan_of_another_alignment_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xladev.client.store_of_environment", lambda: Store(tmp_path / "cache"))
    for alignment in (64, 256, 64, 128):
        chip = Chip(alignment)
        with using_registry(registry_of(chip)):
            check(parse_module(SEVERAL), [X])
        assert chip.within
    assert len(list((tmp_path / "cache").glob("*.entry"))) == 3


def test_a_saved_plan_of_less_alignment_is_not_loaded(tmp_path: Path) -> None:
    with using_registry(registry_of(Chip(256))):
        client.compile(parse_module(SEVERAL), "chip").save(tmp_path / "wide")
    with using_registry(registry_of(Chip(64))):
        client.load_executable(tmp_path / "wide")(X)
        client.compile(parse_module(SEVERAL), "chip").save(tmp_path / "narrow")
    with using_registry(registry_of(Chip(256))):
        client.load_executable(tmp_path / "wide")(X)
        with pytest.raises(FormatError, match="of another alignment") as caught:
            client.load_executable(tmp_path / "narrow")
    assert "no multiple of 256 bytes" in str(caught.value)
