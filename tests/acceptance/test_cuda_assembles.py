"""NVIDIA's assembler takes every CUDA kernel of programs and workloads, without spills."""

import pytest

from tests.conftest import PROGRAMS
from tests.tools.programs import program_names
from tests.tools.sass_budget import ARCHIVE, module_of
from tests.tools.sass_measure import Measured, collect, is_narrow, is_over, measure
from tests.tools.workloads import workload_texts
from xladev.platforms.cuda.toolkit import nvdisasm_path, ptxas_path

NAMES = [*program_names(PROGRAMS), *workload_texts(ARCHIVE)]
TARGET = "sm_90a"
MOST_REGISTERS = 168
"""Of one thread; three blocks of 128 threads then share a multiprocessor's 65,536."""

SLOW = {"resnet8_train": 1, "torch_transformer_forward": 1}
"""How many kernels of a program take more instructions than memory leaves time for: a padded
transpose whose rows of 17 elements are not aligned, and a gelu by erfc as XLA expands it, with 98
instructions for each element, most of which the program itself asks for."""


@pytest.fixture(scope="module")
def ptxas() -> str:
    """The assembler."""
    found = ptxas_path()
    if found is None:
        pytest.skip("no ptxas: install the CUDA toolkit or nvidia-cuda-nvcc")
    return found


@pytest.mark.long
@pytest.mark.rotating
@pytest.mark.skipif(not NAMES, reason="neither ../shared/programs nor ../shared/bench is here")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.counts("programs and workloads that ptxas assembles")
def test_kernels(name: str, ptxas: str) -> None:
    nvdisasm = nvdisasm_path()
    slow: list[Measured] = []
    for collected in collect(module_of(name), TARGET):
        for m in measure(collected, TARGET, ptxas, nvdisasm):
            assert (m.spills, m.stack) == (0, 0), m
            assert m.registers <= MOST_REGISTERS, m
            if nvdisasm:
                assert not (m.is_plain and is_narrow(m)), m
                slow += [m] if is_over(m) else []
    assert len(slow) == (SLOW.get(name, 0) if nvdisasm else 0), slow


def test_the_disassembler_is_here() -> None:
    if nvdisasm_path() is None:
        pytest.skip("no nvdisasm: machine code is not read; pip install nvidia-cuda-nvdisasm")
