"""Digests of results: equal bits give equal ones, and a comparison can fail."""

import json

import numpy as np

from tests.tools.bits import compare, digest
from xladev.errors import CompileError


def test_a_digest_is_of_bits_and_types():
    one = digest(lambda platform: [np.float32(1)], "cpu")
    assert one == digest(lambda platform: [np.float32(1)], "cpu")
    assert one != digest(lambda platform: [np.float64(1)], "cpu")
    assert one != digest(lambda platform: [np.nextafter(np.float32(1), np.float32(2))], "cpu")
    zeros = [digest(lambda platform, z=z: [np.float32(z)], "cpu") for z in (0.0, -0.0)]
    assert zeros[0] != zeros[1]


def test_errors_are_results_too():
    def fails(platform):
        raise CompileError("no")

    assert digest(fails, "cpu") == "error COMPILE"


def test_a_difference_is_named(tmp_path, capsys):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps({"cpu a": "1", "cpu b": "2"}))
    after.write_text(json.dumps({"cpu a": "1"}))
    assert compare(before, after) == 0
    after.write_text(json.dumps({"cpu a": "3"}))
    assert compare(before, after) == 1
    assert "cpu a: 1 -> 3" in capsys.readouterr().out
    after.write_text("{}")
    assert compare(before, after) == 1
