"""Converts StableHLO on standard input to a serialized HloModuleProto on standard output.

A process of its own: jaxlib aborts the process on some damaged bytecode, and may take any time. A
failure is one line of JSON on standard error.
"""

from __future__ import annotations

import json
import sys

from xladev.errors import XladevError
from xladev.frontends.jax.conversion import MLIR, read_program
from xladev.hlo.proto import write_module


def main() -> int:
    """The exit code: 0, or 1 with a failure on standard error."""
    try:
        data = write_module(read_program(sys.stdin.buffer.read(), MLIR).module)
    except XladevError as error:
        said = {"what": error.what, "why": error.why, "hint": error.hint, "code": error.code}
        sys.stderr.write(json.dumps(said) + "\n")
        return 1
    sys.stdout.buffer.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
