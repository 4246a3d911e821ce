"""The ratchet compares with every committed version of its file."""

import subprocess
from pathlib import Path

import pytest

from tests.tools import ratchet


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three versions of a file, one between a removal and its return."""
    monkeypatch.setattr(ratchet, "ROOT", tmp_path)
    monkeypatch.setattr(ratchet, "RATCHET", tmp_path / "ratchet.toml")
    _git(tmp_path, "init", "--quiet")
    for count in (1, None, 3, 2):
        if count is None:
            (tmp_path / "ratchet.toml").unlink()
        else:
            (tmp_path / "ratchet.toml").write_text(f"[counts]\ntests = {count}\n")
        _git(tmp_path, "add", "--all")
        _git(tmp_path, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-mm")
    return tmp_path


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)


def test_every_version_is_found(repository: Path) -> None:
    texts = ratchet.history(repository / "ratchet.toml")
    assert [ratchet.read_ratchet(text) for text in texts] == [{"tests": n} for n in (2, 3, 1)]


def test_a_count_below_an_earlier_one_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ratchet"])
    assert ratchet.main() == 1
    assert "tests went from 3 to 2" in capsys.readouterr().out
