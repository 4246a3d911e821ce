"""Where programs spend their time: kernels as the timeline names them."""

from pathlib import Path

import numpy as np
import pytest

import xladev
from benchmarks.cpu.profile import BETWEEN, CLASSES, Profile, page, profile

DOT = """HloModule m
ENTRY e { x = f32[64,64] parameter(0)
  d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,64] sort(d), dimensions={1}, to_apply=gt }
gt { p = f32[] parameter(0)  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=GT }
"""


def test_a_program_spends_its_time_in_its_kernels(tmp_path: Path) -> None:
    (tmp_path / "m.pb").write_bytes(xladev.hlo.proto.write_module(xladev.parse(DOT)))
    np.savez(tmp_path / "m.npz", in_0000=np.eye(64, dtype=np.float32))
    found = profile(tmp_path / "m.pb", 0.05)
    shares = dict(found.shares)
    assert shares.keys() == {"d", "r", BETWEEN}
    assert sum(shares.values()) == pytest.approx(100)
    assert min(shares["d"], shares["r"]) > 0


def test_kernels_are_classed_by_name() -> None:
    shares = (("dot.4", 40.0), ("add.fusion", 25.0), (BETWEEN, 35.0))
    classes = Profile("p", 12.0, shares).by_class()
    assert {k: v for k, v in classes.items() if v} == {
        BETWEEN: 35.0, "dot": 40.0, "other loops": 25.0,
    }  # fmt: skip
    assert list(classes) == [title for title, _ in CLASSES]
    text = page([Profile("p", 12.0, shares)])
    assert "| p | 12 us | 35 |  | 40 |" in text
    assert "`dot.4` |" in text
