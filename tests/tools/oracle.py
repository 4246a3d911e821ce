"""XLA's own parser, printer and proto codec, asked in a child process.

The child is any Python that has jaxlib: the one named by XLADEV_ORACLE_PYTHON, or this one. One
before 0.12 lacks the newest opcodes and fields (see `version`). Its bindings are private and some
modules make it abort, so it never runs in-process.
"""

import importlib.util
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pytest

_TIMEOUT_S = 300

_CHILD = r"""
import struct, sys
import jaxlib._hlo as hlo

def options():
    chosen = hlo.HloPrintOptions()
    chosen.print_large_constants = True
    return chosen

ASK = {
    "text": lambda data: hlo.HloModule.from_serialized_hlo_module_proto(data)
    .to_string(options()).encode(),
    "proto": lambda data: hlo.hlo_module_from_text(data.decode()).as_serialized_hlo_module_proto(),
    "again": lambda data: hlo.HloModule.from_serialized_hlo_module_proto(data)
    .as_serialized_hlo_module_proto(),
    "reprint": lambda data: hlo.hlo_module_from_text(data.decode()).to_string(options()).encode(),
}
ask, source, sink = ASK[sys.argv[1]], sys.stdin.buffer, sys.stdout.buffer
while header := source.read(4):
    data = source.read(struct.unpack("<I", header)[0])
    try:
        kind, answer = b"A", ask(data)
    except Exception as failure:
        kind, answer = b"E", str(failure).encode()
    sink.write(kind + struct.pack("<I", len(answer)) + answer)
    sink.flush()
"""


@dataclass(frozen=True)
class Refusal:
    """What XLA said instead of an answer."""

    why: str


@cache
def oracle_python() -> str:
    """The Python to ask, or a skip that says which is missing."""
    named = os.environ.get("XLADEV_ORACLE_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("jaxlib") is None:
        pytest.skip("no jaxlib here, and XLADEV_ORACLE_PYTHON names no Python that has it")
    return sys.executable


@cache
def version() -> tuple[int, ...]:
    """Version of the jaxlib that is asked, such as (0, 12, 0)."""
    command = [oracle_python(), "-c", "import jaxlib; print(jaxlib.__version__)"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if said.returncode:
        pytest.skip(f"the oracle cannot be imported: {said.stderr[-200:]}")
    return tuple(int(part) for part in said.stdout.strip().split(".")[:3] if part.isdigit())


def texts_of(protos: Sequence[bytes]) -> list[str | Refusal]:
    """HLO text, constants in full, of serialized modules."""
    return [a if isinstance(a, Refusal) else a.decode() for a in _ask("text", protos)]


def protos_of(texts: Sequence[str]) -> list[bytes | Refusal]:
    """Serialized modules of HLO texts."""
    return _ask("proto", [text.encode() for text in texts])


def rewritten(protos: Sequence[bytes]) -> list[bytes | Refusal]:
    """Serialized modules as XLA writes them after reading."""
    return _ask("again", protos)


def reprinted(texts: Sequence[str]) -> list[str | Refusal]:
    """HLO texts as XLA prints them after parsing."""
    answers = _ask("reprint", [text.encode() for text in texts])
    return [a if isinstance(a, Refusal) else a.decode() for a in answers]


def _ask(question: str, inputs: Sequence[bytes]) -> list[bytes | Refusal]:
    """One answer per input; an input that makes the child abort is refused, and the rest go on."""
    answers: list[bytes | Refusal] = []
    while len(answers) < len(inputs):
        got, said = _run(question, inputs[len(answers) :])
        answers.extend(got)
        if len(answers) < len(inputs):
            answers.append(Refusal(f"the oracle aborted: {said[-300:]}"))
    return answers


def _run(question: str, inputs: Sequence[bytes]) -> tuple[list[bytes | Refusal], str]:
    stream = b"".join(struct.pack("<I", len(data)) + data for data in inputs)
    done = subprocess.run(
        [oracle_python(), "-c", _CHILD, question],
        input=stream,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    said = done.stderr.decode(errors="replace")
    if not done.stdout and "import" in said.lower():
        pytest.skip(f"the oracle cannot be imported: {said[-200:]}")
    return list(_answers(done.stdout)), said


def _answers(stream: bytes) -> list[bytes | Refusal]:
    found: list[bytes | Refusal] = []
    pos = 0
    while pos + 5 <= len(stream):
        size = struct.unpack_from("<I", stream, pos + 1)[0]
        data = stream[pos + 5 : pos + 5 + size]
        found.append(data if stream[pos : pos + 1] == b"A" else Refusal(data.decode()))
        pos += 5 + size
    return found
