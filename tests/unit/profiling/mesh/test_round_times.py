"""Times of rounds: between sizes, beyond them, of more processes than were measured, in files."""

import pytest

from xladev.errors import FileError, FormatError
from xladev.profiling.mesh.round_times import RoundTimes, TransportTimes, read_times

_TWO = RoundTimes(2, (10, 20, 40), (1.0, 2.0, 6.0), (0.5, 1.0, 3.0))
_FOUR = RoundTimes(4, (10, 20, 40), (2.0, 4.0, 12.0), (1.0, 2.0, 6.0))
_TIMES = TransportTimes("sockets", 2, (_TWO, _FOUR))


@pytest.mark.parametrize(
    ("nbytes", "want"),
    [([], 0.0), ([4], 1.0), ([10], 1.0), ([15], 1.5), ([40], 6.0), ([60], 10.0), ([10, 20], 2.5)],
)
def test_a_round(nbytes, want):
    assert _TWO.seconds(nbytes) == want


def test_processes():
    assert _TIMES.seconds(2, [10]) == 1.0
    assert _TIMES.seconds(3, [10]) == 2.0, "those of four, for nobody measured three"
    assert _TIMES.seconds(8, [10]) == 4.0, "each has half of the processors that it had of four"


def test_files(tmp_path):
    path = tmp_path / "times.json"
    path.write_text(_TIMES.to_json())
    assert read_times(path) == _TIMES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        _TIMES.to_json().replace("times 1", "times 0"),
        TransportTimes("sockets", 2, ()).to_json(),
        TransportTimes("sockets", 2, (RoundTimes(2, (2, 1), (1.0, 1.0), (1.0, 1.0)),)).to_json(),
        TransportTimes("sockets", 2, (RoundTimes(2, (1, 2), (1.0,), (1.0, 1.0)),)).to_json(),
    ],
)
def test_other_files(tmp_path, text):
    path = tmp_path / "times.json"
    path.write_text(text)
    with pytest.raises(FormatError, match="no times of rounds"):
        read_times(path)
    with pytest.raises(FileError):
        read_times(tmp_path / "none")


def test_a_word_to_everybody():
    times = TransportTimes("sockets", 2, (RoundTimes(4, (8, 16), (1.0, 2.0), (0.25, 0.5)),))
    assert times.meeting_s(4) == 1.0 + 2 * 0.25
    assert times.meeting_s(2) == 1.0
