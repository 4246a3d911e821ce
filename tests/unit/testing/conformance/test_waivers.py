"""Declarations are read from TOML; each needs an id and a reason."""

from pathlib import Path

import pytest

from xladev.errors import FormatError
from xladev.testing.conformance.waivers import read_declarations

GOOD = """
[[unsupported]]
id = "solvers::*-f64"
reason = "no f64"
[[expected_failure]]
id = "numerics::tan-*"
reason = "argument reduction"
[[waiver]]
id = "convolution::*"
reason = "accumulates in bf16"
tolerance = 16.0
[[waiver]]
id = "products::*"
reason = "not looked into"
"""


def read(tmp_path: Path, text: str) -> object:
    path = tmp_path / "declared.toml"
    path.write_text(text)
    return read_declarations(path)


def test_lists_are_read(tmp_path: Path) -> None:
    path = tmp_path / "declared.toml"
    path.write_text(GOOD)
    found = read_declarations(path)
    entry = found.find(found.unsupported, "solvers::cholesky-f64")
    assert entry is not None
    assert entry.reason == "no f64"
    assert found.find(found.unsupported, "solvers::cholesky-f32") is None
    assert [w.tolerance for w in found.waivers] == [16.0, float("inf")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[waivers]]\nid='*'\nreason='x'", "called 'waivers'"),
        ("[[unsupported]]\nid='*'", "lacks an id or a reason"),
        ("[[unsupported]]\nid='*'\nreason='  '", "lacks an id or a reason"),
        ("[[unsupported]]\nid='*'\nreason='x'\ntolerance=2", "tolerance"),
        ("[[waiver]]\nid='*'\nreason='x'\ntolerance=-1", "is -1"),
        ("[[waiver]]\nid='*'\nreason='x'\ntolerance='big'", "is 'big'"),
        ("unsupported = 3", "is no list"),
        ("not toml", "cannot read"),
    ],
)
def test_what_is_malformed_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read(tmp_path, text)
