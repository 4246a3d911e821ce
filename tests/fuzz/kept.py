"""Files that xladev keeps and reads again, and every way to damage one byte of them.

Each kind has a checksum over all that is in it, so that no damage may be read: not even such as
would give the same program.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import xladev
from xladev.compiler.cache.store import Store
from xladev.compiler.executable import Executable
from xladev.compiler.program.program_file import program_from_bytes
from xladev.errors import FormatError
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import shipped
from xladev.platforms.cpu.engine import compile_text

TEXT = "ENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] add(p, p) }"
OBJECT = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}"
LEVEL = "x86_64-linux.v3"


@dataclass(frozen=True)
class Kept:
    """One file.

    Attributes:
        name: of its kind.
        data: its bytes.
        read: takes bytes, true if it makes anything of them.
    """

    name: str
    data: bytes
    read: Callable[[bytes], bool]


def kept_files(folder: Path) -> list[Kept]:
    """A small file of each kind.

    Args:
        folder: for a cache.
    """
    compiled = xladev.compile(parse_module(TEXT), "interpreter")
    saved = folder / "saved.xladev"
    compiled.save(saved)
    code = compile_text("f", OBJECT, 1)
    (executable,) = compiled.program.executables
    entries = {
        "cached program": saved.read_bytes(),
        "cached object": code,
        "tuning table": b'{"dot 3": "tile=4"}',
    }
    return [
        *(_entry(Store(folder / "cache"), *each) for each in entries.items()),
        Kept("saved program", saved.read_bytes(), _reads(program_from_bytes)),
        Kept("executable", executable.to_bytes(), _reads(Executable.from_bytes)),
        Kept("shipped", shipped.packed({"f": code, "g": code[::-1]}, LEVEL), _reads_shipped),
    ]


def serialized() -> Kept:
    """What JAX's own cache keeps; takes jax."""
    import jax

    from xladev.frontends.jax import client_file, engine

    lowered = jax.jit(lambda x: x + 1).trace(np.ones(4, np.float32)).lower()
    client, _ = engine.open_client([("platform", "interpreter")])
    program, _ = engine.compile(client, lowered.as_text().encode(), "mlir", b"")
    read = _reads(lambda data: client_file.read(client, data))
    return Kept("serialized program", client_file.write(program), read)


def _entry(store: Store, name: str, content: bytes) -> Kept:
    key = name.replace(" ", "-")
    store.write(key, content)
    path = store.folder / f"{key}.entry"

    def read(data: bytes) -> bool:
        path.write_bytes(data)
        found = store.read(key)
        assert found is not None or not path.exists(), "what is damaged goes"
        return found is not None

    return Kept(name, path.read_bytes(), read)


def _reads(reader: Callable[[bytes], object]) -> Callable[[bytes], bool]:
    def read(data: bytes) -> bool:
        try:
            reader(data)
        except FormatError:
            return False
        return True

    return read


def _reads_shipped(data: bytes) -> bool:
    try:
        return bool(shipped._unpacked(data, LEVEL))
    except (ValueError, struct.error):
        return False


def flipped(data: bytes, at: int, changes: int) -> bytes:
    """The bytes with one of them changed by exclusive or."""
    return b"".join((data[:at], bytes([data[at] ^ changes]), data[at + 1 :]))


def damages(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Every other value of every byte, every truncation, a byte more at the end."""
    for at in range(len(data)):
        yield f"cut at {at}", data[:at]
        for changes in range(1, 256):
            yield f"byte {at} changed by {changes:#04x}", flipped(data, at, changes)
    for last in range(256):
        yield f"one byte more, {last:#04x}", data + bytes([last])
