"""Damages xladev's own files behind their checksums: the JSON within them, as JSON.

A file with flipped bits is refused for its checksum and tells nothing of the readers behind it; so
the description is changed as a tree, and length and checksum are made anew.
"""

import copy
import hashlib
import json
import random
import struct
from collections.abc import Iterator
from typing import Any

from tests.fuzz.strange import FLOATS, INTEGERS, TEXTS
from xladev.compiler import executable as executable_file
from xladev.compiler.executable import padding
from xladev.compiler.plan import plan_file
from xladev.compiler.program import program_file
from xladev.compiler.program.program_file import PROGRAM_VERSION
from xladev.compiler.signature import FORMAT_VERSION

_ODD: tuple[Any, ...] = (None, True, False, "", [], {}, [[]], [None], {"a": 1}, *INTEGERS, *TEXTS)


def damaged_program(data: bytes, draw: random.Random) -> bytes:
    """A program's file with its index changed."""
    start = len(program_file.MAGIC) + 12 + 32
    (length,) = struct.unpack_from("<Q", data, len(program_file.MAGIC) + 4)
    index = _changed_json(data[start : start + length], draw)
    rest = data[start + length + len(padding(start + length)) :]
    body = index + padding(start + len(index)) + rest
    return _with_checksum(program_file.MAGIC, PROGRAM_VERSION, (len(index),), body)


def damaged_executable(data: bytes, draw: random.Random) -> bytes:
    """An executable's file with its signature changed."""
    start = len(executable_file.MAGIC) + 28 + 32
    lengths = struct.unpack_from("<QQQ", data, len(executable_file.MAGIC) + 4)
    signature = _changed_json(data[start : start + lengths[0]], draw)
    end = start + lengths[0] + lengths[1] + 8 * lengths[2]
    body = signature + data[start + lengths[0] : end]
    if lengths[2]:
        body += padding(start + len(body)) + data[end + len(padding(end)) :]
    sizes = len(signature), *lengths[1:]
    return _with_checksum(executable_file.MAGIC, FORMAT_VERSION, sizes, body)


def damaged_plan(payload: bytes, draw: random.Random) -> bytes:
    """A kernel plan with its steps, sizes or kernels changed."""
    start = len(plan_file.MAGIC) + 8
    (length,) = struct.unpack_from("<Q", payload, len(plan_file.MAGIC))
    described = _changed_json(payload[start : start + length], draw)
    head = plan_file.MAGIC + struct.pack("<Q", len(described))
    return head + described + payload[start + length :]


def _with_checksum(magic: bytes, version: int, lengths: tuple[int, ...], body: bytes) -> bytes:
    head = struct.pack(f"<I{len(lengths)}Q", version, *lengths)
    return magic + head + hashlib.sha256(head + body).digest() + body


def _changed_json(data: bytes, draw: random.Random) -> bytes:
    """JSON with one to three values changed; in one of 50 cases nested too deep to be read."""
    if draw.random() < 0.02:
        return b"[" * 100_000 + b"]" * 100_000
    root = json.loads(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        _change(*draw.choice(list(_places(root))), draw)
    return json.dumps(root).encode()


def _places(root: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a tree."""
    stack = [root]
    while stack:
        value = stack.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            if isinstance(value[key], (dict, list)) and value[key]:
                stack.append(value[key])


def _change(container: Any, key: Any, draw: random.Random) -> None:
    value = container[key]
    what = draw.random()
    if what < 0.15:
        del container[key]
    elif what < 0.3 and isinstance(container, list):
        container.insert(key, copy.deepcopy(draw.choice(container)))
    elif what < 0.7 and isinstance(value, int):
        container[key] = draw.choice((value + 1, value - 1, 2 * value, -value, *INTEGERS))
    elif what < 0.75:
        container[key] = [value]
    else:
        container[key] = copy.deepcopy(draw.choice((*_ODD, *FLOATS)))
