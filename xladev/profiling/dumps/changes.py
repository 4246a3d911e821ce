"""What a pass changed, as text: both programs side by side, with what is the same folded away."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from xladev.errors import counted, printable

_KEPT = 3
"""Equal lines shown around each change."""
_MOST_LINES = 20_000
"""Lines of both programs above which only the lines' sets are compared."""
_LONGEST = 1000

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<style>
body { margin: 0; font: 13px system-ui, sans-serif; color: #212529; }
header { padding: 8px 12px; border-bottom: 1px solid #dee2e6; background: #f8f9fa;
         position: sticky; top: 0; display: flex; gap: 16px; align-items: baseline; }
table { border-collapse: collapse; width: 100%; table-layout: fixed;
        font: 12px ui-monospace, monospace; }
td { padding: 1px 6px; vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere; }
td.n { text-align: right; color: #868e96; background: #f8f9fa; user-select: none; }
td.removed { background: #ffe3e3; }
td.added { background: #d3f9d8; }
td.none { background: #f1f3f5; }
tr.fold td { background: #e7f5ff; color: #495057; text-align: center; }
</style></head><body>
<header><strong>@TITLE@</strong><span>@COUNTS@</span></header>
<table><colgroup><col width="52"><col><col width="52"><col></colgroup><tbody>
@ROWS@
</tbody></table></body></html>
"""

Block = tuple[str, int, int, int, int]


def change_page(before: str, after: str, title: str) -> str:
    """The page.

    Args:
        before, after: the program as text.
        title: of the page.
    """
    first, second = before.splitlines(), after.splitlines()
    blocks = _blocks(first, second)
    removed = sum(b[2] - b[1] for b in blocks if b[0] != "equal")
    added = sum(b[4] - b[3] for b in blocks if b[0] != "equal")
    rows = "\n".join(row for block in blocks for row in _rows(block, first, second))
    parts = {
        "@TITLE@": html.escape(printable(title)),
        "@COUNTS@": f"{counted(removed, 'line')} removed, {added:,} added",
        "@ROWS@": rows or "<tr><td>no line differs</td></tr>",
    }
    head, *rest = _PAGE.split("@ROWS@")
    for mark in ("@TITLE@", "@COUNTS@"):
        head = head.replace(mark, parts[mark].replace("@", "&#64;"))
    return head + parts["@ROWS@"] + rest[0]


def _blocks(first: Sequence[str], second: Sequence[str]) -> list[Block]:
    if len(first) + len(second) <= _MOST_LINES:
        return list(SequenceMatcher(None, first, second, autojunk=False).get_opcodes())
    return list(_coarse(first, second))


def _coarse(first: Sequence[str], second: Sequence[str]) -> Iterator[Block]:
    """One change, between what both begin and end with: linear in the lines."""
    least = min(len(first), len(second))
    begin = next((n for n in range(least) if first[n] != second[n]), least)
    rest = least - begin
    end = next((n for n in range(rest) if first[-1 - n] != second[-1 - n]), rest)
    last, other = len(first) - end, len(second) - end
    yield "equal", 0, begin, 0, begin
    if begin < last or begin < other:
        yield "replace", begin, last, begin, other
    yield "equal", last, len(first), other, len(second)


def _rows(block: Block, first: Sequence[str], second: Sequence[str]) -> Iterator[str]:
    kind, a, b, c, d = block
    if kind == "equal":
        yield from _equal(a, b, c, first, second)
        return
    for n in range(max(b - a, d - c)):
        left = _cells(a + n, first, "removed") if a + n < b else _NONE
        right = _cells(c + n, second, "added") if c + n < d else _NONE
        yield f"<tr>{left}{right}</tr>"


_NONE = '<td class="n"></td><td class="none"></td>'


def _equal(a: int, b: int, c: int, first: Sequence[str], second: Sequence[str]) -> Iterator[str]:
    lead = _KEPT if a else 0
    trail = _KEPT if b < len(first) or c + b - a < len(second) else 0
    hidden = b - a - lead - trail
    for n in range(b - a):
        if hidden > 1 and lead <= n < b - a - trail:
            if n == lead:
                yield f'<tr class="fold"><td colspan="4">{hidden:,} lines the same</td></tr>'
            continue
        yield f"<tr>{_cells(a + n, first, '')}{_cells(c + n, second, '')}</tr>"


def _cells(at: int, lines: Sequence[str], kind: str) -> str:
    line = lines[at]
    shown = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
    return f'<td class="n">{at + 1}</td><td class="{kind}">{html.escape(printable(shown))}</td>'
