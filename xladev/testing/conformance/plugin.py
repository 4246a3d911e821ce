"""The pytest plugin (entry point `pytest11`): `pytest tests/conformance --backend=NAME`.

It adds its options only where the command line names the suite, so that a project with a
`--backend` of its own is undisturbed; elsewhere it does nothing and imports nothing.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from xladev.testing.conformance.location import names_suite, suite_paths


def _arguments(config: pytest.Config) -> list[str]:
    """What the user wrote, `PYTEST_ADDOPTS` included."""
    more = shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    return [*more, *map(str, config.invocation_params.args)]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Adds the suite's options, if the suite is named."""
    config = pluginmanager.get_plugin("pytestconfig")
    if config is None or not names_suite(_arguments(config), config.invocation_params.dir):
        return
    group = parser.getgroup("xladev conformance")
    group.addoption("--backend", help="platform, kind or device to certify, such as npu")
    group.addoption(
        "--waivers", type=Path, metavar="FILE", help="TOML: what the backend declares about itself"
    )
    group.addoption(
        "--report", type=Path, metavar="DIR", help="write conformance.json, .md, .html, failures"
    )
    group.addoption(
        "--case-seed", type=int, default=0, metavar="N", help="of all inputs (default: 0)"
    )
    group.addoption(
        "--tighten", type=float, default=1.0, metavar="X", help="allow only X of each tolerance"
    )
    group.addoption(
        "--case-timeout", type=float, metavar="S", help="most seconds that any case may take"
    )
    group.addoption("--portion", metavar="K/N", help="only the cases whose checksum is K modulo N")


def pytest_configure(config: pytest.Config) -> None:
    """Starts the session of the suite, if it is named; it compiles whatever it runs.

    Devices are given poisoned memory: what a backend never writes is no result.
    """
    if not names_suite(_arguments(config), config.invocation_params.dir):
        return
    os.environ["XLADEV_CACHE"] = "off"
    os.environ.setdefault("XLADEV_POISON", "1")
    from xladev.testing.conformance.session import SuiteSession

    config.args = suite_paths(config.args, config.invocation_params.dir)
    config.pluginmanager.register(SuiteSession(config), "xladev-conformance-session")
