"""Takes one file through everything: load, verify, print, compile and run on each platform.

`take` is what a worker runs. Its answer says how far the file came; an error that is none of
xladev's tree, or that a built-in platform raised as if it were a stranger's plugin, is a finding.
Each stage may take so many seconds of processor time; one that takes more ends the process, with
a traceback on standard error.
"""

import faulthandler
import json
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xladev.client import compile, load
from xladev.compiler.options import CompileOptions
from xladev.errors import PluginError, XladevError
from xladev.hlo.ir import HloModule, ModuleHeader
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.text import parse_module, print_module
from xladev.hlo.verifier import verify
from xladev.testing.random_inputs import random_arguments

STAGE_S = 30.0
RUN_S = 4.0
PLATFORMS = ("interpreter", "cpu")
MOST_ARGUMENT_NBYTES = 1 << 24
LONGEST_MESSAGE = 20_000
LEVELS = (2, 2, 1, 0)
_IN_PROTO = (
    "is_scheduled", "aliases", "buffer_donors", "entry_layout", "frontend_attributes",
    "backend_config", "stack_frames",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """How far one file came.

    Attributes:
        end: ``ran``, ``refused`` or ``broken``.
        stage: the last stage entered, such as ``compile cpu``.
        code: the error's code, if refused.
        text: the error's message; the traceback, if broken.
        signature: what tells one kind of finding from another.
    """

    end: str
    stage: str
    code: str = ""
    text: str = ""
    signature: str = ""


def take(request: bytes) -> bytes:
    """Takes one file through; the request is a seed's eight bytes and the file."""
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)
    seed = int.from_bytes(request[:8], "little")
    answers = list(_taken(request[8:], seed))
    return json.dumps([vars(answer) for answer in answers]).encode()


def answers_of(data: bytes) -> list[Answer]:
    """What `take` gave."""
    return [Answer(**fields) for fields in json.loads(data)]


def _taken(data: bytes, seed: int) -> Iterator[Answer]:
    """One answer if it is no module; else one for each platform."""
    module, answer = _tried("load", lambda: load(data))
    if module is None:
        yield answer
        return
    _, answer = _tried("verify", lambda: verify(module))
    if answer.end == "ran":
        _, answer = _tried("write", lambda: _round_trips(module))
    if answer.end == "broken":
        yield answer
        return
    for platform in PLATFORMS:
        yield _run(module, platform, seed)


def _tried(stage: str, work: Any) -> tuple[Any, Answer]:
    """What `work` gives, and how it ended. The stage is told first, in case it never ends."""
    print(f"@{time.monotonic():.3f} {stage}", file=sys.stderr, flush=True)
    signal.setitimer(signal.ITIMER_PROF, RUN_S if stage.startswith("run") else STAGE_S)
    try:
        return work(), Answer("ran", stage)
    except XladevError as error:
        return None, _refusal(stage, error)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return None, _breakage(stage, error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _refusal(stage: str, error: XladevError) -> Answer:
    text = str(error)
    cause = error.__cause__ if isinstance(error, PluginError) else None
    if cause is not None and not isinstance(cause, (XladevError, MemoryError)):
        return _breakage(stage, cause)
    whole = error.code and error.what and error.where and error.why and error.hint
    if not whole or len(text) > LONGEST_MESSAGE:
        return Answer("broken", stage, error.code, text[:2000], f"unclear {error.what[:40]}")
    return Answer("refused", stage, error.code, text)


def _breakage(stage: str, error: BaseException) -> Answer:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/xladev/" in f.filename]
    last = frames[-1] if frames else None
    place = f"{last.filename.rpartition('/xladev/')[2]}:{last.lineno}" if last else str(error)[:80]
    text = "".join(traceback.format_exception(error))
    signature = f"{stage} {type(error).__name__} {place}"
    return Answer("broken", stage, type(error).__name__, text[-6000:], signature)


def _round_trips(module: HloModule) -> None:
    """A verified module is written and read to the same, but for what a proto has no room for."""
    data, text = write_module(module), print_module(module)
    try:
        again, parsed = read_module(data), parse_module(text)
    except XladevError as error:
        raise AssertionError(f"what was written is refused: {error.what}") from error
    if read_module(write_module(again)) != again:
        raise AssertionError("the proto written is another module")
    if _within_proto(module.header) != again.header:
        raise AssertionError("the proto written has another header")
    if parsed != module and not _has_names_that_text_changes(module):
        raise AssertionError("the text printed is another module")


def _has_names_that_text_changes(module: HloModule) -> bool:
    """True if text, as XLA reads it, has an underscore for a part of a name."""
    return any("#" in i.name for c in module.computations for i in c.instructions)


def _within_proto(header: ModuleHeader) -> ModuleHeader:
    """The header without what XLA passes beside the proto, or keeps for debuggers."""
    return ModuleHeader(**{name: getattr(header, name) for name in _IN_PROTO})


def _run(module: HloModule, platform: str, seed: int) -> Answer:
    """Compiles and runs; a module that broke the verifier's rules must be refused here too."""
    options = CompileOptions(optimization_level=LEVELS[seed % len(LEVELS)])
    compiled, answer = _tried(f"compile {platform}", lambda: compile(module, platform, options))
    if compiled is None:
        return answer
    arguments: list[Any] = [None] * len(module.entry.parameters)
    if sum(p.shape.nbytes for p in module.entry.parameters) <= MOST_ARGUMENT_NBYTES:
        drawn, answer = _tried("draw", lambda: random_arguments(module, seed, wild=seed % 2 == 1))
        if drawn is None:
            return answer
        arguments = drawn
    _, answer = _tried(f"run {platform}", lambda: read_all(compiled(*arguments)))
    return answer


def read_all(value: Any) -> None:
    """Waits for every leaf."""
    if isinstance(value, tuple):
        for part in value:
            read_all(part)
    elif value is not None:
        np.asarray(value)
