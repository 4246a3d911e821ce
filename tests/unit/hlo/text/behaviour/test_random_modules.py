"""Random modules print as text that reads back equal, in both styles."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.unit.hlo.text.modules import modules
from xladev.hlo.ir import HloModule
from xladev.hlo.text import LONG, parse_module, print_module


@pytest.mark.long
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(modules())
def test_text_reads_back_equal(module: HloModule) -> None:
    assert parse_module(print_module(module)) == module
    assert parse_module(print_module(module, LONG)) == module
