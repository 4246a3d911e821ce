import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xladev.aot.files import write_together
from xladev.errors import FileError

FILES = {"a.h": b"header", "a.o": b"object" * 1000, "a.pc": b"package"}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def contents_of_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_writes_into_a_folder_that_it_makes(tmp_path: Path) -> None:
    paths = write_together(tmp_path / "new" / "folder", FILES)
    assert [path.name for path in paths] == list(FILES)
    assert contents(tmp_path / "new" / "folder") == FILES


def test_replaces_its_own_files_and_leaves_others(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_bytes(b"old")
    (tmp_path / "mine.c").write_bytes(b"mine")
    write_together(tmp_path, FILES)
    assert contents(tmp_path) == FILES | {"mine.c": b"mine"}


def test_a_place_that_is_taken_undoes_all(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_bytes(b"old")
    (tmp_path / "a.pc").mkdir()
    with pytest.raises(FileError, match="a.pc"):
        write_together(tmp_path, FILES)
    assert sorted(os.listdir(tmp_path)) == ["a.h", "a.pc"]
    assert (tmp_path / "a.h").read_bytes() == b"old"


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes the system refuse the bytes of a.o, as a full disk would."""
    code = f"""
import resource, signal
from pathlib import Path
from xladev.aot.files import write_together
from xladev.errors import FileError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    write_together(Path({str(tmp_path / "new")!r}), {FILES!r})
except FileError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout and "a.o" in done.stdout
    assert os.strerror(errno.EFBIG) in done.stdout
    assert os.listdir(tmp_path) == []


def test_an_error_of_the_disk_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, calls = os.replace, []

    def failing(source: Path, destination: Path) -> None:
        calls.append(destination)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(destination))
        replace(source, destination)

    old = dict.fromkeys(FILES, b"old")
    write_together(tmp_path, old)
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(FileError, match="No space left"):
        write_together(tmp_path, FILES)
    assert contents(tmp_path) == old


def test_whoever_finds_the_header_finds_all_of_one_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step between, as a kill there would leave it."""
    replace, headers = os.replace, []
    old = dict.fromkeys(FILES, b"old")

    def watched(source: Path, destination: Path) -> None:
        replace(source, destination)
        left = {name: data for name, data in contents_of_files(tmp_path).items() if name in FILES}
        if "a.h" in left:
            assert left in (old, FILES)
        headers.append("a.h" in left)

    write_together(tmp_path, old)
    monkeypatch.setattr(os, "replace", watched)
    write_together(tmp_path, FILES)
    assert headers == [False] * 5 + [True]
    assert contents(tmp_path) == FILES


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileError) as caught:
        write_together(tmp_path / "taken", FILES)
    assert "it is no folder" in str(caught.value)


def test_a_folder_that_the_system_refuses() -> None:
    if not Path("/proc").is_dir():
        pytest.skip("there is no /proc")
    with pytest.raises(FileError, match="cannot write to folder"):
        write_together(Path("/proc/xladev/out"), FILES)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="Permission denied"):
        write_together(tmp_path / "out", FILES)
