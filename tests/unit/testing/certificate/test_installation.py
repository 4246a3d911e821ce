"""What is certified is found out in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from xladev.errors import DeviceError
from xladev.runtime.registry import current_registry
from xladev.testing.certificate.installation import inspect_apart, inspect_backend

PLUGIN = """
import os, time
from xladev.runtime.hookspecs import PlatformSpec, hookimpl
from xladev.runtime.platform import Platform

class Bad(Platform):
    def visible_device_count(self):
        return 1

    def create_executor(self, ordinal):
        {does}

@hookimpl
def xladev_platforms():
    return PlatformSpec("bad_npu", Bad, priority=5)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a plugin whose device does something when it is opened; for children."""

    def install(does: str) -> None:
        info = tmp_path / "bad_npu-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-npu\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[xladev.platforms]\nbad = bad_npu\n")
        (tmp_path / "bad_npu.py").write_text(PLUGIN.format(does=does))
        monkeypatch.syspath_prepend(tmp_path)

    return install


@pytest.mark.long
def test_it_is_what_this_process_finds() -> None:
    assert inspect_apart("interpreter") == inspect_backend(current_registry(), "interpreter")


@pytest.mark.long
@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("os.abort()", "SIGABRT"),
        ("raise OSError('no licence')", "no licence"),
        ("time.sleep(60)", "timeout after"),
    ],
)
def test_a_device_that_does_not_open_is_an_error(installed, does: str, says: str) -> None:
    installed(does)
    with pytest.raises(DeviceError, match=f"(?s)bad_npu.*{says}"):
        inspect_apart("bad_npu", timeout_s=3 if "sleep" in does else 60)


def test_a_name_of_no_platform_is_the_same_error_as_elsewhere() -> None:
    with pytest.raises(DeviceError, match="no platform or kind is called 'nowhere'") as caught:
        inspect_apart("nowhere")
    assert "xladev doctor" in str(caught.value.hint)
