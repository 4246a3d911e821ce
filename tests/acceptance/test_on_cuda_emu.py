"""Exported programs and GPU workloads on the emulated GPU: what XLA's CPU, or `cpu`, gives."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.acceptance.test_programs import ROUNDING_NOISE
from tests.conftest import PROGRAMS, SHARED
from tests.tools.plugins import emulated_cuda
from tests.tools.programs import ExportedProgram, program_names
from tests.tools.workloads import workload, workload_texts
from xladev import client
from xladev.hlo.literal import Array
from xladev.testing.comparison import difference, expect_relative
from xladev.testing.differential import run_on_platform
from xladev.testing.random_inputs import random_arguments

PLATFORM = "cuda_emu"
NAMES = program_names(PROGRAMS)
ARCHIVE = SHARED / "bench" / "gpu_workloads_small.tar.gz"
WORKLOADS = workload_texts(ARCHIVE)
DEVICES = 4

RTOL = {True: 2.0**-6, False: 1e-4}
"""Of values, and of a tenth of the largest; True for what is computed in bf16, in other orders."""
SEVERAL_ROUNDINGS = {"attention_bf16": 2.0**-4, "block_fwd_bf16": 2.0**-4}
"""Where products of bf16, rounded or not, are operands of others, and cancel."""
SCALE = {"chain64_small_lat": 1 / 64, "block_fwd_bf16": 1 / 16}
"""Of arguments where larger ones let rounding decide: 64 products one after another, and a softmax
of scores far apart."""


def gelu_check(x: Array, factor: Array, offset: Array) -> Callable[[Array, Array], Array]:
    """Of y (1 + tanh) / 2 of y = x * factor + offset, in bf16: the tanh may be one unit off."""
    wide = [np.asarray(a).astype(np.float64) for a in (x, factor, offset)]
    unit = np.abs(wide[0] * wide[1] + wide[2]) * 2.0**-9
    near = expect_relative(RTOL[True])

    def check(got: Array, want: Array) -> Array:
        exact = np.asarray(want).astype(np.float64)
        distance = np.abs(np.asarray(got).astype(np.float64) - exact)
        return near(got, want) | (distance <= unit * (1 + RTOL[True]) + np.abs(exact) * RTOL[True])

    return check


@pytest.fixture(scope="module", autouse=True)
def registry() -> Iterator[None]:
    """The emulated platform, installed or not, with devices for the largest program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLADEV_CUDA_EMU_DEVICES", str(DEVICES))
        with emulated_cuda():
            yield


@pytest.mark.rotating
@pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("platform", [PLATFORM])
@pytest.mark.counts("programs on {platform}")
def test_program(platform: str, name: str) -> None:
    program = ExportedProgram(PROGRAMS, name)
    problem = program.problem(client.compile(program.module(), platform))
    if problem.startswith(ROUNDING_NOISE.get(name, "none of these")):
        pytest.xfail(f"rounding noise: {problem}")
    assert problem == ""


@pytest.mark.rotating
@pytest.mark.skipif(not WORKLOADS, reason="../shared/bench/gpu_workloads_small.tar.gz is not here")
@pytest.mark.parametrize("name", sorted(WORKLOADS))
@pytest.mark.parametrize("platform", [PLATFORM])
@pytest.mark.counts("GPU workloads on {platform}")
def test_workload(platform: str, name: str, seed: int) -> None:
    module = workload(ARCHIVE, name)
    arguments = random_arguments(module, seed)
    if name in SCALE:
        arguments = [(np.asarray(a) * SCALE[name]).astype(np.asarray(a).dtype) for a in arguments]
    check = expect_relative(SEVERAL_ROUNDINGS.get(name, RTOL["bf16" in name]))
    if name == "ew_gelu_bf16":
        check = gelu_check(*arguments)
    found, wanted = (run_on_platform(module, arguments, p) for p in (platform, "cpu"))
    each = len(wanted)  # results of every emulated device; `cpu` has one
    problems = [
        difference(check, got, want) for got, want in zip(found[:each], wanted, strict=True)
    ]
    assert [p for p in problems if p] == []
