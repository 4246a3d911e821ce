"""What `xladev aot --saved-model` makes of names and of mistakes; TensorFlow is not needed here."""

import sys
from pathlib import Path

import pytest

from xladev.aot.selection import Binding, Feed, Fetch, Selection
from xladev.cli.main import main
from xladev.cli.saved_models import SavedModel
from xladev.client import load

TEXT = """
HloModule served

ENTRY e {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  sum = f32[2] add(a, b)
  ROOT r = (f32[2], f32[2]) tuple(sum, b)
}
"""


@pytest.fixture
def model() -> SavedModel:
    return SavedModel(load(TEXT.encode()), ("scale", "x"), ("logits", "same"))


def test_all_inputs_and_outputs_have_their_names(model: SavedModel) -> None:
    found = model.selection(Selection())
    assert found.feeds == (Feed("0", "scale"), Feed("1", "x"))
    assert found.fetches == (Fetch("0", "logits"), Fetch("1", "same"))


def test_chosen_ones_may_have_other_names(model: SavedModel) -> None:
    chosen = Selection((Feed("x", "images"),), (Fetch("same"), Fetch("sum")), ())
    found = model.selection(chosen)
    assert found.feeds == (Feed("1", "images"),)
    assert found.fetches == (Fetch("1", "same"), Fetch("sum", "sum"))


def test_a_constant_input_is_no_argument(model: SavedModel) -> None:
    found = model.selection(Selection(bindings=(Binding("scale", "2"),)))
    assert found.feeds == (Feed("1", "x"),)
    assert found.bindings == (Binding("0", "2"),)


def _said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["aot", *arguments]) != 0
    return capsys.readouterr().err


def test_a_file_or_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "neither was given" in _said([], capsys)
    both = ["a.hlo", "--saved-model", str(tmp_path)]
    assert "both were given" in _said(both, capsys)


def test_a_folder_that_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no saved_model.pb" in _said(["--saved-model", str(tmp_path)], capsys)


@pytest.mark.parametrize("shape", ["x", "=1,2", "x=1,a", "x=-1"])
def test_shapes_that_are_none(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "saved_model.pb").touch()
    said = _said(["--saved-model", str(tmp_path), "--shape", shape], capsys)
    assert "INPUT=SIZES" in said


def test_a_python_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "saved_model.pb").touch()
    missing = str(tmp_path / "python")
    said = _said(["--saved-model", str(tmp_path), "--tensorflow-python", missing], capsys)
    assert f"{missing} cannot be started" in said


@pytest.mark.long
def test_a_python_without_tensorflow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "saved_model.pb").touch()
    hides = tmp_path / "python"
    hides.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$2" "$3" "$4" "$5" "$6"\n')
    hides.chmod(0o755)
    said = _said(["--saved-model", str(folder), "--tensorflow-python", str(hides)], capsys)
    assert "TensorFlow cannot be imported" in said and "--tensorflow-python" in said
