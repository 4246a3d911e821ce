"""Custom calls that ask for memory."""

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of
from tests.tools.single_op import run
from xladev import client
from xladev.hlo.custom_calls.registry import find

TARGETS = ("AllocateBuffer", "CreateBuffer")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", ["f32[3,2]", "s4[5]", "pred[2]", "c64[]", "f8e8m0fnu[2]"])
def test_value_and_expansion_are_the_same_array(target: str, shape: str) -> None:
    value = run("custom-call", shape=of(shape), custom_call_target=target)
    text = f'r = {shape} custom-call(), custom_call_target="{target}"'
    made = client.compile(f"HloModule m\nENTRY e {{ ROOT {text} }}".encode(), "cpu")
    assert not made.program.fallbacks
    assert np.asarray(made()).tobytes() == value.tobytes()
    assert value.shape == of(shape).dims


def test_it_takes_nothing_and_gives_an_array() -> None:
    assert find(TARGETS[0]).summary
    for operands, to in ((("f32[2]",), "f32[2]"), ((), "token")):
        assert_rejected(
            "custom_call_buffer", "custom-call", *operands, to=to, custom_call_target=TARGETS[0]
        )
