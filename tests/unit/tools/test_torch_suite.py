"""The runner of torch's device tests: what runs on the device is what torch's CPU passes."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools import torch_suite
from tests.tools.torch_suite import HOST, TorchSuite, plain_name

TESTS = """
import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, skipIfMps

class TestSome(TestCase):
    @dtypes(torch.float32)
    def test_good(self, device, dtype):
        self.assertEqual(torch.ones(2, device=device, dtype=dtype) + 1, torch.full((2,), 2.0))
    def test_only_here(self, device):
        self.assertEqual(torch.device(device).type, 'cpu')
    def test_nowhere(self, device):
        raise ValueError('bad')
    def test_no_device_cpu(self, device):
        tensor = torch.ones(2, 2, device=device)
        torch.nonzero(tensor)
        self.skipTest('here') if tensor.device.type == 'cpu' else None

class TestPlain(TestCase):
    def test_other(self):
        pass

instantiate_device_type_tests(TestSome, globals())
"""


@pytest.fixture
def suite(tmp_path: Path) -> TorchSuite:
    pytest.importorskip("torch")
    (tmp_path / "repo/test").mkdir(parents=True)
    (tmp_path / "repo/test/test_some.py").write_text(TESTS)
    (tmp_path / "out").mkdir()
    return TorchSuite(
        tmp_path / "repo", tmp_path / "out", "interpreter", 100.0, 0, 1, sys.executable
    )


@pytest.mark.long
def test_what_passes_on_the_host_runs_on_the_device(suite: TorchSuite) -> None:
    torch_suite.run(suite, "test_some")
    host = torch_suite.results(replace(suite, platform=HOST).log("test_some"))
    assert {plain_name(t).split("::")[-1]: r["state"] for t, r in host.items()} == {
        "test_good_float32": "passed", "test_only_here": "passed", "test_nowhere": "failed",
        "test_no_device": "skipped",
    }  # fmt: skip
    ours = torch_suite.results(suite.log("test_some"))
    assert {plain_name(t).split("::")[-1]: r["state"] for t, r in ours.items()} == {
        "test_good_float32": "passed",
        "test_only_here": "failed",
    }
    before = suite.log("test_some").read_text().splitlines()
    torch_suite.run_again(suite, "test_some")
    after = suite.log("test_some").read_text().splitlines()
    assert set(torch_suite.results(suite.log("test_some"))) == set(ours)
    assert after[0] in before
    assert len(after) == 3  # what passed, and the other's begin and end
    assert list(torch_suite.table(suite, ["test_some"]))[-1] == (
        "| `all` | 2 | 0 | 2 | 1 | 50.0 % | 0 |"
    )


def test_names_of_both_devices_are_one() -> None:
    host = "test/test_a.py::TestSomeCPU::test_cpu_x_cpu_float32"
    for other in (
        "test/test_a.py::TestSomeNPU::test_cpu_x_npu_float32",
        "test/test_a.py::TestSomePRIVATEUSE1::test_cpu_x_npu_float32",
    ):
        assert plain_name(host) == plain_name(other)
