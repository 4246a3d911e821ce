"""The child of `testing/worker.py`: reads requests, calls the function, writes answers.

Needs the standard library alone, so that an interpreter without xladev can run it.
"""

from __future__ import annotations

import importlib
import os
import struct
import sys
import traceback

_HEADER = struct.Struct("<BQ")


def _limit_memory(nbytes: int) -> None:
    if nbytes:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))


def _serve(function_name: str) -> None:
    """Answers requests until standard input ends; prints of the function go to standard error."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function = None
    while header := requests.read(_HEADER.size):
        _, nbytes = _HEADER.unpack(header)
        request = requests.read(nbytes)
        try:
            if function is None:
                module, name = function_name.split(":")
                function = getattr(importlib.import_module(module), name)
            status, answer = 0, function(request)
        except BaseException:  # noqa: BLE001 - the parent is told
            status, answer = 1, traceback.format_exc().encode()
        answers.write(_HEADER.pack(status, len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    sys.path[:] = [p for p in sys.path if p != os.path.dirname(os.path.abspath(__file__))]
    _limit_memory(int(sys.argv[2]))
    _serve(sys.argv[1])
