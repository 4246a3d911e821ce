"""What the CUDA tests share: kernels from HLO text, and a registry with the emulated platform."""

import pytest

from tests.tools.plugins import emulated_cuda
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.kernel import emit_stages
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.toolkit import assemble, ptxas_path


@pytest.fixture(scope="package")
def emulated():
    """The platform ``cuda_emu`` in this process's registry, installed or not."""
    with emulated_cuda() as name:
        yield name


def ptx_of(text: str, target: str = "sm_90a", stage: int = 0) -> str:
    """PTX of a launch of the kernel that computes a whole module."""
    spec = KernelSpec("kernel", parse_module(text).entry)
    code, _ = nvptx.kernel_text(emit_stages(spec, nvptx.TARGET)[stage])
    return nvptx.ptx_of("kernel", code, target)


@pytest.fixture
def assembled():
    """A function from HLO text to what ptxas says; skips where there is none."""
    found = ptxas_path()
    if found is None:
        pytest.skip("no ptxas: install the CUDA toolkit or nvidia-cuda-nvcc")
    return lambda text, target="sm_90a", stage=0: assemble(
        ptx_of(text, target, stage), target, found
    )
