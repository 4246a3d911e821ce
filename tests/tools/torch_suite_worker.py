"""A pytest plugin: a line of JSON when a device test of torch's begins and when it ends.

Each line says which operators of the device ran on the host in the test, and why.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SINK = "XLADEV_TORCH_SUITE_LOG"
PLATFORM = "XLADEV_TORCH_SUITE_PLATFORM"
"""The variable with the platform; empty for torch's CPU."""
DEVICE = "npu"
_WHY_CHARACTERS = 3000
_fell: dict[str, Counter[tuple[str, str]]] = {}


def pytest_collection() -> None:
    """Registers the device, before a test module asks torch which there are."""
    platform = os.environ[PLATFORM]
    if platform:
        import xladev.torch

        xladev.torch.register(DEVICE, platform=platform)
    _restore_names()


def _restore_names() -> None:
    """Gives torch's testing modules the names back that older tests import."""
    import torch
    from torch.testing._internal import common_cuda, common_nn, common_utils
    from torch.testing._internal import common_methods_invocations as samples
    from torch.testing._internal.opinfo import refs

    binary = [o for o in samples.python_ref_db if isinstance(o, refs.BinaryUfuncInfo)]
    binary += [o for o in samples.binary_ufuncs if o not in binary]
    wanted: dict[Any, dict[str, Any]] = {
        common_utils: {"skipIfMps": lambda test: test},
        common_cuda: {"tf32_is_not_fp32": lambda: False},
        common_nn: {"module_tests": [], "new_module_tests": []},
        samples: {
            "binary_ufuncs_and_refs": binary,
            "xfail": _nothing,
            "skip": _nothing,
            "skipOps": lambda *_: lambda test: test,
        },
        torch._C: {"has_mkldnn": torch.backends.mkldnn.is_available()},
    }
    for module, names in wanted.items():
        for name, value in names.items():
            if not hasattr(module, name):
                setattr(module, name, value)


def _nothing(*_: Any, **__: Any) -> None:
    """Old marks of operators that fail on every device: those tests fail on torch's CPU too."""


def _on_host() -> Counter[tuple[str, str]]:
    if not os.environ[PLATFORM]:
        return Counter()
    import xladev.torch

    return Counter(xladev.torch.report().host)


def _write(**fields: object) -> None:
    with Path(os.environ[SINK]).open("a") as file:
        file.write(json.dumps(fields) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _write(test=item.nodeid, state="begin", at=time.time())
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = _on_host()
    try:
        return (yield)
    finally:
        _fell[item.nodeid] = _on_host() - before


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        why = "" if report.passed else str(report.longrepr)[-_WHY_CHARACTERS:]
        fell = _fell.get(report.nodeid, Counter())
        _write(
            test=report.nodeid, state=report.outcome, seconds=report.duration, why=why,
            on_host=sorted({f"{name}: {reason}" for name, reason in fell}),
        )  # fmt: skip
