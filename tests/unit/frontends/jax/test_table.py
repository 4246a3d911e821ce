"""The function table of PJRT: whole, and polite where nothing stands behind a slot."""

import ctypes
import re

import pytest

from tests.tools.jax_child import PACKAGE, library

_HEAD_NBYTES = 40
_UNIMPLEMENTED = 12


class _ErrorArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("code", ctypes.c_int),
    )


@pytest.fixture(scope="module")
def table() -> int:
    loaded = ctypes.CDLL(str(library()))
    loaded.GetPjrtApi.restype = ctypes.c_void_p
    return int(loaded.GetPjrtApi())


def _slots() -> list[str]:
    return re.findall(
        r"SLOT\((\w+)\)", (PACKAGE / "src/pjrt_slots.h").read_text().partition("*/")[2]
    )


def _functions(table: int, count: int) -> list[int]:
    return list((ctypes.c_size_t * count).from_address(table + _HEAD_NBYTES))


def test_every_slot_is_filled(table: int) -> None:
    names = _slots()
    assert len(names) == len(set(names)) == 138
    (nbytes,) = (ctypes.c_size_t * 1).from_address(table)
    assert nbytes == _HEAD_NBYTES + 8 * len(names)
    assert tuple((ctypes.c_int * 2).from_address(table + 32)) == (0, 114)
    assert all(_functions(table, len(names)))


def test_what_is_missing_says_its_name(table: int) -> None:
    names = _slots()
    functions = dict(zip(names, _functions(table, len(names)), strict=True))
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    error = call(functions["Client_DmaMap"])(None)
    args = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, error, 0)
    assert not call(functions["Error_GetCode"])(ctypes.addressof(args))
    assert args.code == _UNIMPLEMENTED
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions["Error_Destroy"])(ctypes.addressof(args))
