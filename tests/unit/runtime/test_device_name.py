"""Device names."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xladev.errors import DeviceError
from xladev.runtime.device_name import DeviceName, is_plain_name, parse_device_name


@pytest.mark.parametrize(
    ("text", "name", "ordinal"),
    [
        ("cpu", "cpu", None),
        ("CPU:0", "cpu", 0),
        (" npu:12 ", "npu", 12),
        ("my_npu2", "my_npu2", None),
        ("gpu:*", "gpu", None),
        ("/device:GPU:1", "gpu", 1),
        ("/gpu:1", "gpu", 1),
        ("/device:XLA_CPU:0", "cpu", 0),
        ("/job:localhost/replica:0/task:0/device:XLA_GPU:3", "gpu", 3),
        ("/job:worker/task:0/device:NPU:0", "npu", 0),
        ("/JOB:localhost/DEVICE:cpu:*", "cpu", None),
    ],
)
def test_accepted(text, name, ordinal):
    assert parse_device_name(text) == DeviceName(name, ordinal)


@pytest.mark.parametrize(
    "text",
    ["", ":", "cpu:", "cpu:-1", "cpu:1:2", "cpu:x", "2cpu", "c-pu", "/", "//", "/job:a", "/job:a/",
     "cpu:99999999999", "/device:", "cpu 0", "\n", "/job:localhost/device:CPU:0/x", "üpu"],
)  # fmt: skip
def test_refused(text):
    with pytest.raises(DeviceError, match="is no device name"):
        parse_device_name(text)


@pytest.mark.parametrize("text", ["/task:1/device:CPU:0", "/job:a/replica:2/task:0/device:CPU:0"])
def test_devices_of_other_processes_are_refused(text):
    with pytest.raises(DeviceError, match="another process"):
        parse_device_name(text)


@given(
    st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True), st.none() | st.integers(0, 10**9 - 1)
)
def test_round_trip(name, ordinal):
    made = DeviceName(name, ordinal)
    assert parse_device_name(str(made)) == made
    assert parse_device_name(str(made).upper()) == made


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text):
    with contextlib.suppress(DeviceError):
        assert is_plain_name(parse_device_name(text).name)


@pytest.mark.parametrize("text", [None, 3, "", "A", "a b", "1a"])
def test_plain_names(text):
    assert not is_plain_name(text)
