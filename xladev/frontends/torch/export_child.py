"""A process that turns a .pt2 file into HLO: bytes in, a serialized HloModuleProto out.

Torch takes seconds to start and much memory, and reading such a file may run code; so commands
start this for it. An error is one line of JSON on stderr.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from xladev.errors import UnsupportedError, XladevError
from xladev.hlo.proto import write_module


def main() -> int:
    """Reads standard input, writes standard output."""
    try:
        try:
            from xladev.frontends.torch.export import exported_module
        except ImportError as error:
            raise UnsupportedError(
                "torch cannot be imported", why=str(error), hint="pip install 'xladev[torch]'"
            ) from error
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.pt2"
            path.write_bytes(sys.stdin.buffer.read())
            code = write_module(exported_module(path))
    except XladevError as error:
        said = {"what": error.what, "why": error.why, "hint": error.hint}
        sys.stderr.write(json.dumps(said) + "\n")
        return 1
    sys.stdout.buffer.write(code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
