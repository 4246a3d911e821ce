"""A time limit that is over while a file is read or written is no error of the file."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import xladev
from xladev.aot.files import write_together
from xladev.aot.selection import _read_array
from xladev.compiler.cache.store import Store
from xladev.compiler.cache.whole_file import write_whole
from xladev.errors import FileError
from xladev.hlo.load import read_file
from xladev.instrument import pass_interruption
from xladev.instrument.dump import DumpedFile, DumpFolder, DumpGroup, _tell
from xladev.platforms.cpu.shipped import _read
from xladev.platforms.cuda.driver import found
from xladev.profiling.timeline.file import read_trace
from xladev.testing.arrays import _stored, save_arrays

KEY = "k" * 64
PAGES = "xladev.profiling.dumps.pages.add_file"
GROUP = DumpGroup(1, "m", "cpu")


def _read_entry(folder: Path) -> None:
    store = Store(folder / "cache")
    assert store.write(KEY, b"bytes")
    store.read(KEY)


OPERATIONS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "an entry of the cache is read": ("pathlib.Path.open", _read_entry),
    "an entry of the cache is written": (
        "os.replace", lambda folder: Store(folder / "cache").write(KEY, b"bytes")
    ),
    "a program is read": ("pathlib.Path.read_bytes", lambda folder: read_file(folder / "old")),
    "a saved executable is read": (
        "pathlib.Path.read_bytes", lambda folder: xladev.load_executable(folder / "old")
    ),
    "a file is written": ("os.replace", lambda folder: write_whole(folder / "old", b"new")),
    "a device is written": (
        "pathlib.Path.write_bytes", lambda _: write_whole(Path(os.devnull), b"")
    ),
    "files are written": (
        "pathlib.Path.write_bytes", lambda folder: write_together(folder, {"old": b"new"})
    ),
    "files are renamed": ("os.replace", lambda folder: write_together(folder, {"old": b"new"})),
    "a trace is read": ("pathlib.Path.read_bytes", lambda folder: read_trace(folder / "old")),
    "a trace is parsed": ("json.loads", lambda folder: read_trace(folder / "old")),
    "a value is read": ("numpy.load", lambda folder: _read_array(str(folder / "old"), None)),
    "arrays are read": ("numpy.load", lambda folder: _stored(folder / "old", "in_")),
    "arrays are written": ("numpy.savez", lambda folder: save_arrays(folder / "a.npz", [], [])),
    "a dump is written": (
        "pathlib.Path.write_bytes", lambda folder: DumpFolder(folder / "d").write("m", "x", "text")
    ),
    "a page of dumps is made": (
        PAGES,
        lambda folder: _tell(DumpedFile(folder, "m", "x", GROUP)),
    ),
    "shipped microkernels are read": (
        "pathlib.Path.read_bytes", lambda folder: _read.__wrapped__(folder / "old", "level")
    ),
    "a library is loaded": (
        "cuda.pathfinder.load_nvidia_dynamic_lib", lambda _: found.missing.__wrapped__("cublasLt")
    ),
    "cuDNN is imported": ("importlib.import_module", lambda _: found.front_end.__wrapped__()),
}  # fmt: skip


@pytest.fixture
def alarm() -> Iterator[None]:
    """SIGUSR1 raises a TimeoutError, as SIGALRM is often made to."""

    def handler(_number: int, _frame: Any) -> None:
        raise TimeoutError("enough")

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.usefixtures("alarm")
def test_the_time_is_over_while(name: str, tmp_path: Path) -> None:
    """It passes, and the files are those of before."""
    (tmp_path / "old").write_bytes(b"{}")
    patched, operation = OPERATIONS[name]
    cuda: Any = ModuleType("cuda")
    pathfinder: Any = ModuleType("cuda.pathfinder")
    cuda.pathfinder = pathfinder
    pathfinder.DynamicLibNotFoundError = pathfinder.load_nvidia_dynamic_lib = RuntimeError
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cuda", cuda)
        patch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
        patch.setattr(patched, lambda *_, **__: signal.raise_signal(signal.SIGUSR1))
        with pytest.raises(TimeoutError, match="enough"):
            operation(tmp_path)
    assert (tmp_path / "old").read_bytes() == b"{}"
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left <= {"old", f"{KEY}.entry"}


def test_errors_of_the_system_do_not_pass(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write"):
        write_whole(tmp_path / "none" / "a", b"")
    pass_interruption(TimeoutError(110, "Connection timed out"))
    assert Store(tmp_path / "none").read(KEY) is None


@pytest.mark.usefixtures("alarm")
def test_what_passes_is_the_same_and_says_where_it_was_raised() -> None:
    def work() -> None:
        try:
            signal.raise_signal(signal.SIGUSR1)
        except OSError as error:
            pass_interruption(error)

    with pytest.raises(TimeoutError) as caught:
        work()
    assert "handler" in [entry.name for entry in caught.traceback]
    assert caught.value.__context__ is None


def test_ctrl_c_leaves_no_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    for write in (
        lambda: write_whole(tmp_path / "a", np.ones(4).tobytes()),
        lambda: Store(tmp_path / "cache").write(KEY, b"bytes"),
    ):
        with pytest.raises(KeyboardInterrupt):
            write()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
