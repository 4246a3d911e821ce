"""The function table of xladev-pjrt's library, called as a PJRT client would, without JAX.

Every argument struct begins with its size and a list of extensions; the object that is asked stands
next, answers behind it. `Answer` reads them by their place.
"""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tests.tools.jax_child import PACKAGE, library
from xladev.frontends.jax.records import Storage
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import write_module

HEAD_NBYTES = 40
WORD = 8
FIRST = 2 * WORD
"""Where the first field of a struct of arguments is."""
_MOST_NBYTES = 512
_TYPES = {"int32": 4, "float32": 11}


def slots() -> list[str]:
    """Names of the functions, in the order of the table."""
    text = (PACKAGE / "src/pjrt_slots.h").read_text().partition("*/")[2]
    return re.findall(r"SLOT\((\w+)\)", text)


@dataclass
class Answer:
    """What a function gave: an error (0: none), and its arguments with the answers in them."""

    error: int
    arguments: Any

    def word(self, number: int) -> int:
        """The field of 8 bytes that is the number-th behind the list of extensions."""
        found: int = ctypes.c_uint64.from_buffer(self.arguments, FIRST + WORD * number).value
        return found

    def words(self, pointer: int, count: int) -> list[int]:
        """Numbers that the field ``pointer`` points to; the field ``count`` says how many."""
        length = self.word(count)
        return list((ctypes.c_uint64 * length).from_address(self.word(pointer))) if length else []

    def text(self, pointer: int, size: int) -> str:
        """The text that one field points to, and whose bytes another counts."""
        return ctypes.string_at(self.word(pointer), self.word(size)).decode()


@dataclass
class Table:
    """The functions of the library by their names."""

    _kept: list[Any] = field(default_factory=list)

    @cached_property
    def address(self) -> int:
        """Where the table is."""
        loaded = ctypes.CDLL(str(library()))
        loaded.GetPjrtApi.restype = ctypes.c_void_p
        return int(loaded.GetPjrtApi())

    @cached_property
    def functions(self) -> dict[str, int]:
        """Addresses of the functions."""
        names = slots()
        found = (ctypes.c_size_t * len(names)).from_address(self.address + HEAD_NBYTES)
        return dict(zip(names, found, strict=True))

    @cached_property
    def extensions(self) -> dict[int, tuple[int, list[int]]]:
        """Size and functions of each extension, by its type."""
        found: dict[int, tuple[int, list[int]]] = {}
        (at,) = (ctypes.c_size_t * 1).from_address(self.address + WORD)
        while at:
            nbytes, kind, following = (ctypes.c_size_t * 3).from_address(at)
            count = (nbytes - 3 * WORD) // WORD
            found[kind & 0xFFFFFFFF] = (
                nbytes, list((ctypes.c_size_t * count).from_address(at + 3 * WORD)),
            )  # fmt: skip
            at = following
        return found

    def call(self, function: str | int, *words: int) -> Answer:
        """Calls a function with these first fields, of 8 bytes each; the others are 0."""
        arguments = ctypes.create_string_buffer(_MOST_NBYTES)
        head = (ctypes.c_uint64 * (2 + len(words))).from_buffer(arguments)
        head[:] = [_MOST_NBYTES, 0, *words]
        address = self.functions[function] if isinstance(function, str) else function
        call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
        return Answer(call(ctypes.addressof(arguments)) or 0, arguments)

    def ask(self, function: str | int, *words: int) -> Answer:
        """As `call`; an error fails the test with its text."""
        answer = self.call(function, *words)
        assert not answer.error, f"{function}: {self.message(answer.error)}"
        return answer

    def message(self, error: int) -> str:
        """The text of an error."""
        arguments = ctypes.create_string_buffer(_MOST_NBYTES)
        (ctypes.c_uint64 * 3).from_buffer(arguments)[:] = [_MOST_NBYTES, 0, error]
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.functions["Error_Message"])
        call(ctypes.addressof(arguments))
        return Answer(0, arguments).text(1, 2)

    def client(self, platform: str = "cpu") -> int:
        """A client of a platform."""
        storage = Storage()
        self._kept.append(storage)
        options = storage.attributes({"platform": platform})
        return self.ask("Client_Create", options, 1).word(6)

    def compiled(self, client: int, module: HloModule, options: bytes = b"") -> int:
        """A loaded executable."""
        code, form = write_module(module), b"hlo"
        program = (ctypes.c_size_t * 6)(
            6 * WORD, 0, *self._bytes(code), *self._bytes(form)
        )  # fmt: skip
        return self.ask(
            "Client_Compile", client, ctypes.addressof(program), *self._bytes(options)
        ).word(4)

    def put(self, client: int, value: "np.ndarray[Any, Any]") -> int:
        """A buffer with a copy of an array of f32 or s32, on the client's first device."""
        device = self.ask("Client_Devices", client).words(1, 2)[0]
        memory = self.ask("Device_DefaultMemory", device).word(1)
        dims = (ctypes.c_int64 * max(value.ndim, 1))(*value.shape)
        made = self.ask(
            "Client_BufferFromHostBuffer", client, value.ctypes.data, _TYPES[value.dtype.name],
            ctypes.addressof(dims), value.ndim, 0, 0, 0, 0, memory,
        )  # fmt: skip
        return made.word(12)

    def execute(self, loaded: int, arguments: Sequence[int], count: int) -> list[int]:
        """The ``count`` results of a program on one device."""
        row, results = (ctypes.c_size_t * len(arguments))(*arguments), (ctypes.c_size_t * count)()
        rows = (ctypes.c_size_t * 2)(ctypes.addressof(row), ctypes.addressof(results))
        at = ctypes.addressof(rows)
        self.ask("LoadedExecutable_Execute", loaded, 0, at, 1, len(arguments), at + WORD)
        return list(results)

    def fetch(self, buffer: int) -> bytes:
        """What the host is given of a buffer, in row-major order."""
        nbytes = self.ask("Buffer_ToHostBuffer", buffer).word(3)
        data = ctypes.create_string_buffer(nbytes + 1)
        answer = self.ask("Buffer_ToHostBuffer", buffer, 0, ctypes.addressof(data), nbytes)
        assert not self.call("Event_Await", answer.word(4)).error
        return data.raw[:nbytes]

    def _bytes(self, data: bytes) -> tuple[int, int]:
        kept = ctypes.create_string_buffer(data, len(data) + 1)
        self._kept.append(kept)
        return ctypes.addressof(kept), len(data)
