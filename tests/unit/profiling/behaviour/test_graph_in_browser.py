"""The graph's page in a real browser, without a network: search, open, select, compare."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.unit.profiling.test_graph import PROGRAM
from xladev.cli.main import main

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium is installed"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


def _open(browser: Any, path: Path) -> tuple[Any, list[str]]:
    """The page, and what it complained about or asked the network for."""
    page = browser.new_context(viewport={"width": 1200, "height": 800}, offline=True).new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda r: None if r.url.startswith("file:") else wrong.append(r.url))
    page.goto(path.as_uri())
    page.wait_for_function("window.page && page.views.every((v) => v.boxes.length)")
    return page, wrong


def test_search_open_and_select(browser: Any, tmp_path: Path) -> None:
    text, made = tmp_path / "m.hlo", tmp_path / "m.html"
    text.write_text(PROGRAM)
    assert main(["graph", str(text), "-o", str(made)]) == 0
    page, wrong = _open(browser, made)
    assert page.inner_text("#title") == "m: 8 instructions"
    boxes = "page.views[0].boxes.length"
    assert page.evaluate(boxes) == 5
    page.fill("#search", "REDUCE f32[4]")
    assert page.inner_text("#count") == "1 found"
    page.keyboard.press("Enter")
    facts = page.inner_text("#facts")
    assert "s = f32[4] reduce(p, zero)" in facts
    assert "constants\t0.5" in facts
    page.click("#toggle")
    assert page.evaluate(boxes) == 8
    page.click("#close")
    assert page.evaluate(boxes) == 5
    page.fill("#search", "f/</script>")
    page.click("#found button")
    assert "exponential p" in page.inner_text("#facts")
    assert "layout\tany" in page.inner_text("#facts")
    page.select_option("#mode", "bytes")
    page.click("text=r divide")
    assert "divide r" in page.inner_text("#facts")
    assert wrong == []


def test_a_click_on_a_box_selects_it(browser: Any, tmp_path: Path) -> None:
    text, made = tmp_path / "m.hlo", tmp_path / "m.html"
    text.write_text(PROGRAM)
    assert main(["graph", str(text), "-o", str(made)]) == 0
    page, wrong = _open(browser, made)
    at = page.evaluate(
        "(() => { const v = page.views[0], b = v.boxes.find((b) => b.node.name === 'q');"
        "const a = v.canvas.getBoundingClientRect();"
        "return [a.left + v.x + (b.x + 20) * v.scale, a.top + v.y + (b.y + 20) * v.scale]; })()"
    )
    page.mouse.click(*at)
    assert "broadcast q" in page.inner_text("#facts")
    before = page.evaluate("page.views[0].scale")
    page.mouse.move(*at)
    page.mouse.wheel(0, -200)
    page.wait_for_function(f"page.views[0].scale > {before}")
    assert wrong == []


def test_two_programs_side_by_side(browser: Any, tmp_path: Path) -> None:
    text, other, made = (tmp_path / name for name in ("a.hlo", "b.hlo", "ab.html"))
    text.write_text(PROGRAM)
    other.write_text(PROGRAM.replace("exponential", "logistic"))
    assert main(["graph", str(text), str(other), "-o", str(made)]) == 0
    page, wrong = _open(browser, made)
    assert page.evaluate("page.mode") == "difference"
    marks = "page.views.map((v) => v.boxes.filter((b) => b.node.mark).map((b) => b.node.mark))"
    assert page.evaluate(marks) == [["removed"], ["added"]]
    assert page.inner_text("#legend") == "removed\nadded\nrewired"
    assert wrong == []


def test_colours_by_time_device_and_kernel(browser: Any, tmp_path: Path) -> None:
    text, trace, made = (tmp_path / name for name in ("m.hlo", "trace.json", "m.html"))
    text.write_text(PROGRAM.replace("f/</script>", "<!--<script>"))
    kernel = {"hlo_op": "r.fusion", "hlo_module": "m", "fused": "p s q r"}
    slices = [{"ph": "X", "ts": 0, "dur": 3.5, "args": kernel}]
    trace.write_text(json.dumps({"traceEvents": slices}))
    words = ["graph", str(text), "--platform", "cpu", "--unfused", "--trace", str(trace)]
    assert main([*words, "-o", str(made)]) == 0
    page, wrong = _open(browser, made)
    assert page.evaluate("page.mode") == "time"
    assert page.inner_text("#legend").split("\n") == ["0 us", "0.35 us", "1.75 us", "3.5 us"]
    colours = "page.views[0].boxes.map((b) => page.colour(page.views[0], b.node))"
    assert len(set(page.evaluate(colours))) == 2  # the parameter, and what the kernel computes
    for mode, legend in (("device", "cpu"), ("opcode", "elementwise"), ("fusion", ".fusion")):
        page.select_option("#mode", mode)
        assert legend in page.inner_text("#legend")
        assert len(set(page.evaluate(colours))) > 1
    page.fill("#search", "exponential")
    page.keyboard.press("Enter")
    facts = page.inner_text("#facts")
    assert "time\t3.5 us in 1 run\n" in facts
    assert "layout\t{1,0}" in facts  # assigned before kernels are formed
    assert "operation\t<!--<script>" in facts
    assert "source\tf.py:3" in facts
    assert wrong == []


def test_an_open_box_keeps_its_colour_at_its_top(browser: Any, tmp_path: Path) -> None:
    text, trace, made = (tmp_path / name for name in ("m.hlo", "trace.json", "m.html"))
    text.write_text(PROGRAM)
    kernel = {"hlo_op": "s", "hlo_module": "m"}
    slices = [{"ph": "X", "ts": 0, "dur": 3.5, "args": kernel}]
    trace.write_text(json.dumps({"traceEvents": slices}))
    assert main(["graph", str(text), "--trace", str(trace), "-o", str(made)]) == 0
    page, wrong = _open(browser, made)
    page.click("#open")
    shown = (
        "(() => { const v = page.views[0], b = v.boxes.find((b) => b.node.name === 's');"
        "v.paint(); const ratio = v.canvas.width / v.canvas.clientWidth;"
        "const at = (y) => Array.from(v.canvas.getContext('2d').getImageData("
        "  (v.x + (b.x + b.width - 8) * v.scale) * ratio,"
        "  (v.y + (b.y + y) * v.scale) * ratio, 1, 1).data).slice(0, 3);"
        "return [b.isOpen, page.colour(v, b.node), at(20), at(b.height - 6)]; })()"
    )
    is_open, colour, top, bottom = page.evaluate(shown)
    assert is_open
    assert colour == "hsl(5 95% 60%)"
    assert top == [0xFA, 0x48, 0x38]  # the same
    assert bottom == [0xF8, 0xF9, 0xFA]
    assert wrong == []


def test_a_large_program_opens_and_is_painted_from_afar(browser: Any, tmp_path: Path) -> None:
    text, made = tmp_path / "m.hlo", tmp_path / "m.html"
    steps = [f"v{n} = f32[4] negate(v{max(0, n - 1 - n % 7)})" for n in range(1, 3000)]
    lines = ["v0 = f32[4] parameter(0)", *steps, "ROOT r = f32[4] negate(v2999)"]
    text.write_text("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n")
    assert main(["graph", str(text), "-o", str(made)]) == 0
    page, wrong = _open(browser, made)
    assert page.evaluate("page.views[0].boxes.length") == 3001
    painted = (
        "(() => { const v = page.views[0]; v.fit(); v.paint();"
        "const d = v.canvas.getContext('2d').getImageData(0, 0, v.canvas.width, v.canvas.height);"
        "let n = 0; for (let i = 0; i < d.data.length; i += 4) n += d.data[i + 2] < 220 &&"
        "  d.data[i + 3] > 200; return n; })()"
    )
    assert page.evaluate(painted) > 3000  # pixels of boxes, which nobody could see otherwise
    page.fill("#search", "v1234")
    page.keyboard.press("Enter")
    assert "negate v1234" in page.inner_text("#facts")
    assert wrong == []


LARGE = "HloModule large\nENTRY e {\n  x0 = f32[4] parameter(0)\n" + "".join(
    f"  x{n} = f32[4] {opcode}(x{n - 1}, x{n * 2 // 3})\n"
    for n, opcode in enumerate(["add", "multiply"] * 200, 1)
)
SEEN = """page.views.map((v) => [v.scale, v.boxes.filter((b) =>
  b.x * v.scale + v.x >= 0 && (b.x + b.width) * v.scale + v.x <= v.canvas.clientWidth &&
  b.y * v.scale + v.y >= 0 && (b.y + b.height) * v.scale + v.y <= v.canvas.clientHeight)
  .map((b) => b.node.name)])"""


def test_a_large_program_opens_where_it_begins_at_a_size_to_read(
    browser: Any, tmp_path: Path
) -> None:
    text, made = tmp_path / "m.hlo", tmp_path / "m.html"
    text.write_text(LARGE.rstrip("\n") + "\n  ROOT r = f32[4] negate(x400)\n}\n")
    assert main(["graph", str(text), "-o", str(made)]) == 0
    page, wrong = _open(browser, made)
    [[scale, names]] = page.evaluate(SEEN)
    assert scale >= 0.8
    assert {"x0", "x1", "x2"} <= set(names)
    page.click("#fit")
    [[scale, names]] = page.evaluate(SEEN)
    assert scale < 0.1
    assert "r" in names
    assert wrong == []


def test_two_large_programs_open_where_they_differ(browser: Any, tmp_path: Path) -> None:
    texts = [tmp_path / "a.hlo", tmp_path / "b.hlo"]
    for path, last in zip(texts, ("negate", "cosine"), strict=True):
        path.write_text(LARGE.rstrip("\n") + f"\n  ROOT r = f32[4] {last}(x400)\n}}\n")
    made = tmp_path / "m.html"
    assert main(["graph", *map(str, texts), "-o", str(made)]) == 0
    page, wrong = _open(browser, made)
    for scale, names in page.evaluate(SEEN):
        assert scale >= 0.8
        assert "r" in names
    assert wrong == []
