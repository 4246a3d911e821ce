"""What `xladev doctor` says about TensorFlow."""

import sys
from pathlib import Path

import pytest

from xladev.cli.main import main
from xladev.errors import PluginError
from xladev.frontends.tensorflow import diagnosis
from xladev.frontends.tensorflow.diagnosis import diagnose_tensorflow


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the plugin would be, beside a TensorFlow 2.21."""
    monkeypatch.setattr(diagnosis, "installed_version", lambda: "2.21.0")
    monkeypatch.setattr(diagnosis, "_plugin_path", lambda: tmp_path / "plugin.so")
    monkeypatch.setattr(diagnosis, "library_path", lambda: tmp_path)
    return tmp_path / "plugin.so"


def _why() -> str:
    found = diagnose_tensorflow()
    assert found is not None and not found.devices and found.hint
    return found.why


def test_without_tensorflow_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "installed_version", lambda: None)
    assert diagnose_tensorflow() is None


def test_obstacles(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not installed" in _why()
    plugin.touch()

    def missing() -> Path:
        raise PluginError("no library", hint="build it")

    monkeypatch.setattr(diagnosis, "library_path", missing)
    assert "no library" in _why()
    monkeypatch.setattr(diagnosis, "installed_version", lambda: "2.18.1")
    assert "2.19 to 2.21" in _why()


@pytest.mark.parametrize(
    "program, wanted",
    [
        ("print('devices 2')", 2),
        ("import sys; print('xladev: no device for X', file=sys.stderr)", "no device for X"),
        ("raise ImportError('broken')", "ImportError: broken"),
        ("pass", "it said nothing"),
    ],
)
def test_what_tensorflow_answers(
    plugin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    program: str, wanted: int | str,
) -> None:  # fmt: skip
    plugin.touch()
    monkeypatch.setattr(diagnosis, "_ASK", program)
    assert Path(sys.executable).exists()
    if isinstance(wanted, int):
        found = diagnose_tensorflow()
        assert found is not None and found.devices == wanted
        main(["doctor"])
        assert "TensorFlow 2.21.0: sees 2 of XLADEV" in capsys.readouterr().out
    else:
        assert wanted in _why()
        main(["doctor"])
        assert wanted in capsys.readouterr().out
