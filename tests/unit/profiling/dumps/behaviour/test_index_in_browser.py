"""The index of dumps in a real browser, without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.unit.profiling.dumps.test_index import PROGRAM
from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium is installed"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed"),
]


@pytest.fixture
def context() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started.new_context(viewport={"width": 1200, "height": 800}, offline=True)
        started.close()


def _follow(context: Any, page: Any, selector: str) -> Any:
    """The page that a link opens."""
    with context.expect_page() as opened:
        page.locator(selector).first.click()
    opened.value.wait_for_load_state()
    return opened.value


def test_search_and_links(context: Any, tmp_path: Path) -> None:
    compile(parse_module(PROGRAM), "cpu", CompileOptions(dump_to=str(tmp_path)))
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith("file:") else wrong.append(r.url))
    page.goto((tmp_path / "index.html").as_uri())
    assert "1 compilation of" in page.inner_text("#counts")
    code = _follow(context, page, 'a[href$="twice.ll"]')
    assert "define" in code.inner_text("body")
    page.fill("#search", "algebraic")
    assert page.locator("tbody tr:visible").count() >= 1
    assert page.locator('a[href$=".ll"]:visible').count() == 0
    change = _follow(context, page, 'a[href$="change_algebraic-simplifier.html"]:visible')
    assert "removed" in change.inner_text("header")
    assert change.locator("td.removed").count() >= 1
    graph = _follow(context, page, 'a[href$="graph_algebraic-simplifier.html"]:visible')
    graph.wait_for_function("window.page && page.views.every((v) => v.boxes.length)")
    assert graph.evaluate("page.mode") == "difference"
    page.fill("#search", "nothing is called so")
    assert page.locator("section:visible").count() == 0
    page.fill("#search", "twice")
    assert page.locator("section:visible").count() == 1
    assert wrong == []
