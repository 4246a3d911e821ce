"""The certification suite: `pytest --pyargs xladev.conformance --backend=NAME`.

A wheel holds the files here. In a checkout and in an editable installation they are in
`tests/conformance`, one file per family of opcodes, and this package finds them there.
"""

from pathlib import Path

_SOURCES = Path(__file__).resolve().parents[2] / "tests" / "conformance"
if _SOURCES.is_dir():
    __path__.append(str(_SOURCES))
