"""Makes texts that XLA printed comparable."""

import re

_TABLES = re.compile(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*")
_METADATA = re.compile(r", metadata=\{(\"(?:[^\"\\]|\\.)*\"|[^}\"])*\}")


def comparable(text: str) -> str:
    """A module's text without what XLA numbers anew on reading, and computations in one order.

    Metadata and its tables go: XLA renumbers stack frames by first use. Their equality is what the
    tests of reading what was written show.
    """
    head, _, rest = _METADATA.sub("", _TABLES.sub("\n", text)).partition("\n")
    return head + "\n}\n".join(sorted(block.strip() for block in rest.split("\n}\n")))
