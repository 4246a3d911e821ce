from pathlib import Path

import pytest

from xladev.aot.config import Config, read_config
from xladev.aot.selection import Binding, Feed, Fetch, Selection
from xladev.errors import FileError, FormatError

WHOLE = """
name = "mnist"
target = "aarch64-linux-gnu"
cpu = "armv8-a"
in_place = false

[options]
fusion = false
optimization_level = 3

[[feed]]
what = "x.1"
name = "images"

[[feed]]
what = 1

[[constant]]
what = "W.1"
value = "weights.npz:W"

[[constant]]
what = "rate"
value = 0.5

[[fetch]]
what = 0
name = "logits"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "aot.toml"
    path.write_text(text)
    return path


def test_reads_a_whole_file(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, WHOLE)) == Config(
        name="mnist",
        target="aarch64-linux-gnu",
        cpu="armv8-a",
        in_place=False,
        options=("fusion=false", "optimization_level=3"),
        selection=Selection(
            (Feed("x.1", "images"), Feed("1")),
            (Fetch("0", "logits"),),
            (Binding("W.1", str(tmp_path / "weights.npz:W")), Binding("rate", 0.5)),
        ),
    )


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert read_config(written(tmp_path, "")) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "no TOML"),
        (f"name = {'9' * 5000}", "no TOML"),
        (f"name = {'[' * 100_000}", "no TOML"),
        ("nmae = 'x'", "did you mean 'name'"),
        ("name = 3", "it is of type text"),
        ("in_place = 'no'", "true or false"),
        ("feed = ['x']", "[[feed]]"),
        ("[[feed]]\nname = 'x'", "no `what`"),
        ("[[feed]]\nwhat = 1.5", "a name or a number"),
        ("[[feed]]\nwhat = 'x'\nname = 1", "it is text"),
        ("[[feed]]\nwhat = 'x'\nfile = 'x'", "unknown key 'file'"),
        ("[[constant]]\nwhat = 'x'", "no `value`"),
        ("options = 3", "[options]"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_config(written(tmp_path, text))
    assert message in str(caught.value)
    assert "aot.toml" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        read_config(tmp_path / "none.toml")
