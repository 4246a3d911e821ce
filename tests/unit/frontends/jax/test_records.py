"""Python's structs and numbers are those of the shim's C sources."""

import ctypes
import re
from pathlib import Path

import pytest

from xladev.frontends.jax.element_types import TOKEN_NUMBER, TYPE_OF
from xladev.frontends.jax.records import ClientRecord, DeviceRecord, ProgramRecord

SOURCES = Path(__file__).parents[4] / "packaging/xladev-pjrt/src"
pytestmark = pytest.mark.skipif(not SOURCES.is_dir(), reason="needs the checkout's C sources")


def _c_fields(name: str) -> list[str]:
    header = re.sub(r"/\*.*?\*/", "", (SOURCES / "shim.h").read_text(), flags=re.S)
    body = re.findall(r"typedef struct \{([^{}]*)\} (\w+);", header)
    (fields,) = [fields for fields, struct in body if struct == name]
    return re.findall(r"(\w+)(?=[,;])", fields)


@pytest.mark.parametrize("record", [ClientRecord, DeviceRecord, ProgramRecord])
def test_fields_agree(record: type[ctypes.Structure]) -> None:
    assert [field[0] for field in record._fields_] == _c_fields(record.__name__)


def test_element_types_agree() -> None:
    header = (SOURCES / "pjrt_types.h").read_text()
    names = re.findall(r"PJRT_Buffer_Type_(\w+)(?=,)", header)
    assert names.index("TOKEN") == TOKEN_NUMBER
    assert {n: t.name.upper() for n, t in TYPE_OF.items()} == {
        n: name for n, name in enumerate(names) if name not in ("INVALID", "TOKEN")
    }
