"""Parses Python sources in a process that runs other tests too."""

import ast
import gc


def parse(text: str, name: str = "<source>") -> ast.Module:
    """The syntax tree of ``text``.

    Python 3.11 raises SystemError where `ast.parse` is entered again while it builds a tree. The
    garbage collector can do that: a dropped event logs its traceback, whose formatter parses the
    line that failed. So it waits.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, name)
    finally:
        if collecting:
            gc.enable()
