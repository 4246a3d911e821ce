"""A certificate reads back equal; damaged, edited and foreign files are refused with a reason."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.testing.certificate.samples import certificate, suite
from xladev.errors import FormatError
from xladev.testing.certificate.certificate import digest, read_certificate
from xladev.testing.certificate.statement import statement_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "CERTIFICATE.json"
    path.write_text(certificate(suite(tmp_path / "suite")).to_json())
    return path


def test_it_reads_back_equal(path: Path, tmp_path: Path) -> None:
    assert read_certificate(path) == certificate(suite(tmp_path / "suite"))


def edited(path: Path, edit: Callable[[dict[str, Any]], object], *, resign: bool) -> Path:
    """The file with an edit, its digest made to fit if `resign`."""
    data = json.loads(path.read_text())
    edit(data)
    if resign:
        data["sha256"] = digest(data)
    path.write_text(json.dumps(data))
    return path


def test_any_edit_breaks_the_digest(path: Path) -> None:
    before = path.read_text()
    for key in json.loads(before).keys() - {"format", "sha256"}:
        path.write_text(before)
        edited(path, lambda d, k=key: d.update({k: _other(d[k])}), resign=False)
        with pytest.raises(FormatError, match="altered|another type"):
            read_certificate(path)


def _other(value: Any) -> Any:
    if isinstance(value, dict):
        return {**value, "programs_on_device": 2} if "programs" in value else {**value, "x": 1}
    return value + (1 if not isinstance(value, str) else "x")


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda d: d.update(format=1), "format 1"),
        (lambda d: d.update(level=7), "no such level"),
        (lambda d: d.update(level=3), "no such level"),
        (lambda d: d.update(level="2"), "another type"),
        (lambda d: d.update(level=True), "another type"),
        (lambda d: d.update(extra=1), "fields are not"),
        (lambda d: d.pop("seed"), "fields are not"),
        (lambda d: d["backend"].pop("driver"), "fields are not"),
        (lambda d: d["counts"].update(fallback=0), "counts are not"),
        (lambda d: d["results"].update({"a::b": "splendid"}), "counts are not"),
        (lambda d: d["coverage"].update(programs_on_device=2), "statement is not"),
        (lambda d: d["coverage"].update(programs_on_device=3), "coverage is not"),
        (lambda d: d["coverage"].update(checks=0), "coverage is not"),
        (lambda d: d["coverage"].update(idle=1), "coverage is not"),
        (lambda d: d["cut"].update({"no::such": "f32[1]"}), "were cut"),
        (lambda d: d["cut"].update({"memory::copies": ""}), "were cut"),
        (lambda d: d["cut"].update({"memory::copies": 1}), "another type"),
        (lambda d: d["coverage"].update(work=-1), "another type"),
        (lambda d: d.update(statement="npu is splendid"), "statement is not"),
    ],
)
def test_contradictions_are_found_behind_a_fitting_digest(
    edit: Callable[[dict[str, Any]], object], says: str, path: Path
) -> None:
    with pytest.raises(FormatError, match=says):
        read_certificate(edited(path, edit, resign=True))


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000, '{"format": 1}', "\udcff"])
def test_what_is_no_certificate_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(FormatError):
        read_certificate(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot read") as caught:
        read_certificate(tmp_path / "none.json")
    assert "xladev certify NAME" in str(caught.value)


def test_the_first_line_states_coverage_from_level_2(tmp_path: Path) -> None:
    must_pass = suite(tmp_path)
    first = [statement_text(certificate(must_pass, n)).splitlines()[0] for n in (1, 2)]
    assert "level 1, Memory" in first[0] and "nothing was computed on the device" in first[0]
    assert "level 2, Compiled" in first[1] and "50.0% of programs (1 of 2)" in first[1]


def test_the_statement_has_what_the_certificate_depends_on(tmp_path: Path) -> None:
    made = certificate(suite(tmp_path))
    text = statement_text(made)
    for part in ("xladev-npu 1", "1 x NPU (npu1)", made.suite_sha256, "0.1.0", "no waivers"):
        assert part in text
    assert "What this does not prove" in text


def test_the_statement_says_how_the_cases_become_the_coverage(tmp_path: Path) -> None:
    text = statement_text(certificate(suite(tmp_path / "suite")))
    assert "50.0% of programs (1 of 2)" in text
    assert "Of the 3 cases with a right result (pass, fallback, waived) there are" in text
    rows = ("1 | checks", "0 | programs simplified to", "1 | programs that ran on the device",
            "1 | programs that ran on the host, or in part |")  # fmt: skip
    assert [f"| {row}" in text for row in rows] == [True] * 4
    assert "are the 2 programs of the coverage, of which 1 ran on the device alone" in text


def test_the_statement_lists_what_was_cut(tmp_path: Path) -> None:
    whole = certificate(suite(tmp_path / "suite"))
    assert "Cut to the device's memory" not in statement_text(whole)
    cut = replace(whole, cut={"memory::copies": "8 bytes at once instead of 16"})
    assert "- `memory::copies`: 8 bytes at once instead of 16" in statement_text(cut)
    path = tmp_path / "cut.json"
    path.write_text(cut.to_json())
    assert read_certificate(path) == cut


def test_cases_that_want_more_devices_are_listed(tmp_path: Path) -> None:
    made = certificate(suite(tmp_path / "suite"))
    assert "Not asked for" not in statement_text(made)
    results = {**made.results, "streams::copy-between": "unsupported"}
    text = statement_text(replace(made, results=results))
    section = text.partition("## Not asked for at this level\n")[2].partition("\n## ")[0]
    assert "want more devices than there are (1)" in section
    assert section.endswith("- `streams::copy-between`\n")
    assert "nothing that it calls unsupported" in text


def test_functions_that_are_the_sdks_are_told(tmp_path: Path) -> None:
    made = certificate(suite(tmp_path / "suite"))
    assert "| functions | of tier 2, Compiled |" in statement_text(made)
    lower = replace(made, backend=replace(made.backend, tier=1))
    text = statement_text(lower)
    assert "of tier 1, Memory; what the tiers above are about was done by the SDK" in text


def test_the_hash_of_the_plugins_files_is_told(tmp_path: Path) -> None:
    text = statement_text(certificate(suite(tmp_path / "suite")))
    assert "| files | 1 file of the distribution xladev-npu, sha256 0 |" in text
