"""The exported programs run on the template NPU, and nearly all of their work on the device."""

import pytest

from tests.acceptance.test_programs import ROUNDING_NOISE
from tests.conftest import PROGRAMS
from tests.tools.device_share import device_share, percent
from tests.tools.programs import ExportedProgram, program_names
from xladev.runtime.registry import Registry, using_registry

NAMES = program_names(PROGRAMS)
PLATFORM = "template_npu"

LEAST_WORK = {"elementwise_math": 99.0, "fft_spectral_conv": 17.0, "tf_keras_cnn_train": 99.9}
"""Percent of floating-point work on the device; all of it where none is given: f16, s64 and complex
numbers are not in hardware."""


@pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("platform", [PLATFORM])
@pytest.mark.counts("programs on {platform}")
def test_program(platform: str, name: str) -> None:
    with using_registry(Registry()) as registry:
        found = device_share(ExportedProgram(PROGRAMS, name), platform)
        registry.close()
    if found.problem.startswith(ROUNDING_NOISE.get(name, "none of these")):
        pytest.xfail(f"rounding noise: {found.problem}")
    assert found.problem == ""
    assert percent(found.work) >= LEAST_WORK.get(name, 100.0)
