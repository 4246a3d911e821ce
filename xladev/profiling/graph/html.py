"""One HTML page that shows one program, or two side by side, without a network."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

_HERE = files(__package__)


def html_page(programs: Sequence[dict[str, Any]], title: str) -> str:
    """The page.

    Args:
        programs: one or two, from `graph_data`; a ``title`` in one names its pane.
        title: of the page.
    """
    # "</" would end the element that holds the data
    data = json.dumps(list(programs), separators=(",", ":")).replace("</", "<\\/")
    page = _HERE.joinpath("viewer.html").read_text("utf-8")
    script = _HERE.joinpath("viewer.js").read_text("utf-8")
    parts = {"@TITLE@": html.escape(title), "@SCRIPT@": script, "@DATA@": data}
    for mark, text in parts.items():
        page = page.replace(mark, text, 1)
    return page
