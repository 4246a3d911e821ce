"""Machine code of PTX: assembled once, kept, and never more than a wish."""

import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.instrument import collect_counters
from xladev.platforms.cuda import images
from xladev.platforms.cuda.toolkit import ptxas_path

NEGATE = "ENTRY e { x = f32[64] parameter(0)\n ROOT r = f32[64] negate(x) }"


@pytest.fixture
def ptx(monkeypatch, tmp_path):
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path))
    return ptx_of(NEGATE).encode()


@pytest.mark.skipif(ptxas_path() is None, reason="no ptxas: install the CUDA toolkit")
def test_code_is_assembled_once(ptx, monkeypatch):
    with collect_counters() as counters:
        first = images.machine_code(ptx, "sm_90a")
        assert first.startswith(b"\x7fELF")
        monkeypatch.setattr(images, "ptxas_path", lambda: None)
        assert images.machine_code(ptx, "sm_90a") == first
        assert images.machine_code(ptx, "sm_80") == ptx
    assert counters["cuda.assembled"] == 1
    assert images.machine_code(first, "sm_90a") == first


@pytest.mark.skipif(ptxas_path() is None, reason="no ptxas: install the CUDA toolkit")
def test_what_the_assembler_refuses_is_left_to_the_driver(ptx):
    wrong = ptx.replace(b"ret;", b"retreat;")
    assert images.machine_code(wrong, "sm_90a") == wrong


def test_without_an_assembler_the_driver_compiles(ptx, monkeypatch):
    monkeypatch.setattr(images, "ptxas_path", lambda: None)
    assert images.machine_code(ptx, "sm_90a") == ptx


def test_without_a_cache_all_the_same(ptx, monkeypatch):
    monkeypatch.setenv("XLADEV_CACHE", "off")
    monkeypatch.setattr(images, "ptxas_path", lambda: None)
    assert images.machine_code(ptx, "sm_90a") == ptx
