"""One HTML page that shows one program, or two side by side, without a network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from xladev.errors import printable

_HERE = files(__package__)


def html_page(programs: Sequence[dict[str, Any]], title: str, colour: str = "") -> str:
    """The page.

    Args:
        programs: one or two, from `graph_data`; a ``title`` in one names its pane.
        title: of the page.
        colour: what boxes are coloured by at first; default: differences or times, if there are
            any, or else opcodes.
    """
    # a "<" of a name may begin what ends the element, or comments it out
    shown = {"programs": list(programs), "colour": colour}
    data = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    page = _HERE.joinpath("viewer.html").read_text("utf-8")
    script = _HERE.joinpath("viewer.js").read_text("utf-8")
    parts = {"@TITLE@": html.escape(printable(title)), "@SCRIPT@": script, "@DATA@": data}
    # all at once: a title may hold one of the marks
    return re.sub("|".join(parts), lambda found: parts[found.group()], page)
