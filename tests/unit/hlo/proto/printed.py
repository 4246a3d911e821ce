"""Makes texts that XLA printed comparable."""

import re

from tests.tools import oracle
from xladev.hlo.proto import read_module, write_module

_TABLES = re.compile(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*")
_METADATA = re.compile(r", metadata=\{(\"(?:[^\"\\]|\\.)*\"|[^}\"])*\}")


def comparable(text: str) -> str:
    """A module's text without what XLA numbers anew on reading, and computations in one order.

    Metadata and its tables go: XLA renumbers stack frames by first use. Their equality is what the
    tests of reading what was written show.
    """
    head, _, rest = _METADATA.sub("", _TABLES.sub("\n", text)).partition("\n")
    return head + "\n}\n".join(sorted(block.strip() for block in rest.split("\n}\n")))


def differences(protos: dict[str, bytes]) -> dict[str, str]:
    """Why XLA refuses what was written for each proto, or ``differs`` where it prints another.

    An XLA that does not know the opcode of the original says nothing about what was written.
    """
    written = oracle.texts_of([write_module(read_module(data)) for data in protos.values()])
    original = oracle.texts_of(list(protos.values()))
    found: dict[str, str] = {}
    for name, ours, theirs in zip(protos, written, original, strict=True):
        if isinstance(theirs, oracle.Refusal) and "Unknown opcode" in theirs.why:
            continue
        if isinstance(ours, oracle.Refusal):
            found[name] = ours.why
        elif _known(comparable(ours)) != _known(comparable(str(theirs))):
            found[name] = "differs"
    return found


def _known(text: str) -> str:
    """What both ways of storing a total order leave in an XLA that does not read the newer one."""
    return text if oracle.version() >= (0, 12) else text.replace(", type=TOTALORDER", "")
