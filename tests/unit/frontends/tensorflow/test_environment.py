"""What the environment says about TensorFlow's device."""

import pytest

from xladev.frontends.tensorflow import environment


@pytest.mark.parametrize(
    "device, platform, wanted",
    [
        ("", "", ("XLADEV", None)),
        ("", "cpu", ("XLADEV", "cpu")),
        ("MY_NPU", "", ("MY_NPU", "my_npu")),
        ("NPU", "my_npu", ("NPU", "my_npu")),
        ("GPU", "", ("XLADEV", None)),  # TensorFlow's own
        ("npu", "", ("XLADEV", None)),
    ],
)
def test_names(
    monkeypatch: pytest.MonkeyPatch, device: str, platform: str, wanted: tuple[str, str | None]
) -> None:
    monkeypatch.setenv(environment.DEVICE, device)
    monkeypatch.setenv(environment.PLATFORM, platform)
    assert (environment.device_type(), environment.platform_name()) == wanted
