import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from xladev.aot.archive import Member, archive


def test_members_and_index_are_where_the_headers_say() -> None:
    members = [Member("odd.o", b"abc", ("f", "g")), Member("even.o", b"1234", ("h",))]
    data = archive(members)
    assert data.startswith(b"!<arch>\n/ ")
    count, *offsets = struct.unpack_from(">4I", data, 8 + 60)
    assert count == 3
    assert data[offsets[0] :].startswith(b"odd.o/ ")
    assert offsets[0] == offsets[1]
    assert data[offsets[2] :].startswith(b"even.o/ ")
    assert data[8 + 60 + 16 :].startswith(b"f\0g\0h\0")
    assert len(data) % 2 == 0


def test_long_names_are_in_a_table() -> None:
    name = "a_name_that_is_longer_than_the_header.o"
    data = archive([Member(name, b"", ("f",)), Member("short.o", b"x")])
    assert f"{name}/\n".encode() in data
    assert b"/0              " in data


def test_the_same_members_give_the_same_bytes() -> None:
    members = [Member("a.o", b"abc", ("f",))]
    assert archive(members) == archive(members)


@pytest.mark.parametrize("names", [("a.o",), ("a.o", "a_much_longer_name_of_a_file.o", "c.o")])
def test_binutils_reads_it(tmp_path: Path, names: tuple[str, ...]) -> None:
    if shutil.which("ar") is None:
        pytest.skip("ar is not here (apt-get install binutils)")
    contents = {name: bytes([n]) * (n + 5) for n, name in enumerate(names)}
    (tmp_path / "lib.a").write_bytes(archive([Member(n, d) for n, d in contents.items()]))
    subprocess.run(["ar", "x", "lib.a"], cwd=tmp_path, check=True)
    assert {name: (tmp_path / name).read_bytes() for name in names} == contents
