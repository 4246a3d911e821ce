"""The must-pass list: read, refused, and the hash that moves with every file of the suite."""

from pathlib import Path

import pytest

from tests.unit.testing.certificate.samples import suite
from xladev.errors import FormatError
from xladev.testing.certificate.must_pass import FILE, read_must_pass, suite_sha256


def test_a_level_asks_for_what_lower_ones_ask_for(tmp_path: Path) -> None:
    found = suite(tmp_path)
    assert found.of_level(1) == ("memory::copies",)
    assert found.of_level(2) == ("dot::dot-f32", "elementwise::add-f32", "memory::copies")


@pytest.mark.parametrize("text", ["", "suite x\n", "suite 1\n1\n", "suite 1\n9 a::b\n"])
def test_what_is_no_list_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(FormatError):
        read_must_pass(tmp_path)


def test_a_missing_list_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot read"):
        read_must_pass(tmp_path)


def test_the_hash_covers_names_contents_and_the_list(tmp_path: Path) -> None:
    suite(tmp_path)
    seen = {suite_sha256(tmp_path)}
    (tmp_path / "elementwise.py").write_text('"""Other cases."""\n')
    seen.add(suite_sha256(tmp_path))
    (tmp_path / "elementwise.py").rename(tmp_path / "other.py")
    seen.add(suite_sha256(tmp_path))
    (tmp_path / FILE).write_text("suite 2\n")
    seen.add(suite_sha256(tmp_path))
    assert len(seen) == 4
