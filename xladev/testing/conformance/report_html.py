"""The report as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from xladev.errors import printable
from xladev.runtime.plugins.tiers import TIERS
from xladev.testing.conformance.matrix import COLUMNS, CoverageMatrix
from xladev.testing.conformance.report_markdown import fallback_reasons
from xladev.testing.conformance.single_op import share_text
from xladev.testing.conformance.status import CaseResult, CaseStatus

_SLOWEST = 20
_SHOWN_FAILURES = 20
"""Failures after which groups of them are folded."""
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882;
  --pass: #23834a; --fallback: #a86f00; --unsupported: #6f757e; --expected-failure: #8a5fb8;
  --waived: #3f78bd; --fail: #d43f3a; --error: #8b1a16; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto;
  max-width: 92rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
h1 b.bad { color: var(--fail); } h1 b.good { color: var(--pass); }
table { border-collapse: collapse; } th, td { padding: .15rem .5rem; text-align: left; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
table.plain td, table.plain th { border-bottom: 1px solid var(--line); vertical-align: top; }
code, pre { font: 12px/1.4 ui-monospace, monospace; }
pre { white-space: pre-wrap; margin: .2rem 0; }
.scroll { overflow: auto; max-height: 90vh; }
details { margin: .4rem 0; } summary { cursor: pointer; font-weight: 600; }
article { border-bottom: 1px solid var(--line); padding: .35rem 0; overflow-wrap: anywhere; }
table.matrix { font-size: 11px; } table.matrix td { padding: 0; border: 1px solid var(--line); }
table.matrix td.c { width: 1.9rem; height: 1.15rem; text-align: center;
  white-space: nowrap; color: #fff; }
table.matrix th.t { position: sticky; top: 0; z-index: 1; background: Canvas; padding: .3rem 0;
  vertical-align: bottom; text-align: center; }
table.matrix th.t span { writing-mode: vertical-rl; transform: rotate(180deg); }
table.matrix th.o { position: sticky; left: 0; background: Canvas; white-space: nowrap; }
table.matrix th.x { left: 0; z-index: 2; }
table.matrix td.missing { outline: 2px solid var(--fail); outline-offset: -2px; color: inherit; }
table.matrix td.none { background: var(--soft); border-color: transparent; }
table.matrix tr.family th { text-align: left; padding-top: .6rem; }
.key span { display: inline-block; padding: 0 .5rem; margin-right: .4rem; color: #fff; }
""" + "".join(f".{s.value} {{ background: var(--{s.value}); }}\n" for s in CaseStatus)


def html_page(data: dict[str, Any], results: Sequence[CaseResult], matrix: CoverageMatrix) -> str:
    """The whole page."""
    title = f"Conformance of {data['backend']}"
    body = "\n".join(_body(data, results, matrix))
    return printable(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>\n{body}</html>'
    )


def _body(
    data: dict[str, Any], results: Sequence[CaseResult], matrix: CoverageMatrix
) -> Iterator[str]:
    kind, word = ("good", "passed") if data["succeeded"] else ("bad", "failed")
    heading = f"Conformance of {escape(data['backend'])}: <b class={kind}>{word}</b>"
    yield f"<h1>{heading}{_reach(results) if data['succeeded'] else ''}</h1>"
    yield (
        f"<p>{len(results)} cases, xladev {escape(data['xladev'])}, {escape(data['date'])}, suite "
        f"{data['suite_version']} (<code>{data['suite'][:12]}</code>), case seed "
        f"{data['case_seed']}, tolerance &times; {data['tighten']}.<br>"
        f"{escape(data['coverage'].capitalize())}; {escape(share_text(data['single_op']))}. "
        f"{_work(results)}</p>"
    )
    yield f"<p><b>Next:</b> {escape(data['next'])}</p>"
    yield from _tiers(results)
    yield from _failures(results)
    yield from _matrix(matrix)
    yield from _host(results)
    yield from _cut(results)
    yield from _slowest(results)
    yield from _declared(data["declarations"])


def _reach(results: Sequence[CaseResult]) -> str:
    """How much ran on the device alone: a success on the host says little of a device."""
    single = [r.status is CaseStatus.PASS for r in results if r.opcode]
    return f", {100 * sum(single) / len(single):.0f}% on the device alone" if single else ""


def _work(results: Sequence[CaseResult]) -> str:
    device, host = sum(r.device_work for r in results), sum(r.host_work for r in results)
    share = f"{100 * device / (device + host):.1f}%" if device + host else "none"
    return f"Floating-point work on the device: {share}."


def _tiers(results: Sequence[CaseResult]) -> Iterator[str]:
    rows = []
    for tier in TIERS:
        counts = Counter(r.status for r in results if r.tier == tier.number)
        if counts:
            rows.append([f"{tier.number} {tier.name}", *(counts[s] or "" for s in CaseStatus)])
    yield _table(
        ["tier", *(s.value for s in CaseStatus)], rows, numbers=range(1, len(CaseStatus) + 1)
    )


def _failures(results: Sequence[CaseResult]) -> Iterator[str]:
    failed = [r for r in results if not r.status.is_good]
    if not failed:
        return
    yield f"<h2>{len(failed)} failures</h2>"
    groups: dict[str, list[CaseResult]] = {}
    for r in failed:
        groups.setdefault(r.opcode or r.file, []).append(r)
    shown = 0
    for name, alike in sorted(groups.items(), key=lambda g: -len(g[1])):
        opened = " open" if shown < _SHOWN_FAILURES else ""
        shown += len(alike)
        yield f"<details{opened}><summary>{escape(name)}: {len(alike)}</summary>"
        yield from (_failure(r) for r in alike)
        yield "</details>"


def _failure(result: CaseResult) -> str:
    first, pattern = _difference(result)
    pattern = f" &mdash; <b>{escape(pattern)}</b>" if pattern else ""
    again = f"<pre>{escape(result.reproduce)}</pre>" if result.reproduce else ""
    program = f" <code>{escape(result.program)}</code>" if result.program else ""
    head = f"<b><code>{escape(result.id)}</code></b>{program}{pattern}"
    return f"<article>{head}<br>{first}{again}</article>"


def _difference(result: CaseResult) -> tuple[str, str]:
    found = result.difference
    if found is None:
        pattern = result.status.value if result.status is CaseStatus.ERROR else ""
        return f"<pre>{escape(result.detail)}</pre>", pattern
    text = (
        f"{found.bad} of {found.size} elements of result {found.result} "
        f"<code>{escape(found.shape)}</code>, first at "
        f"<code>{list(found.first)}</code>: got <code>{escape(found.got)}</code>, want "
        f"<code>{escape(found.want)}</code> &plusmn; {found.allowed:.3g}"
    )
    return text, found.pattern


def _matrix(matrix: CoverageMatrix) -> Iterator[str]:
    done, wanted = len(matrix.verdicts.keys() & matrix.wanted), len(matrix.wanted)
    yield f"<h2>Opcode &times; element type: {done} of {wanted} cells were run</h2><p class=key>"
    yield from (f"<span class={s.value}>{s.value}</span>" for s in CaseStatus)
    yield (
        "A number counts the cases; 2/9: two of nine have the verdict of the colour, the worst "
        "one, and the others are better. A red frame is an empty cell: the suite has cases, none "
        "was run, or it has none for the opcode. Grey: the opcode does not take the type.</p>"
    )
    heads = "".join(f"<th class=t><span>{t}</span>" for t in COLUMNS)
    yield f'<div class=scroll><table class=matrix><tr><th class="t x">{heads}</tr>'
    for opcode in matrix.rows:
        if opcode in matrix.exempt:
            why = escape(matrix.exempt[opcode])
            yield f"<tr><th class=o>{opcode}<td class=none colspan={len(COLUMNS)}>{why}</tr>"
        else:
            cells = "".join(_cell(matrix, opcode, dtype) for dtype in COLUMNS)
            yield f"<tr><th class=o>{opcode}{cells}</tr>"
    yield "</table></div>"


def _cell(matrix: CoverageMatrix, opcode: str, dtype: str) -> str:
    status = matrix.verdicts.get((opcode, dtype))
    title = f"{opcode} {dtype}"
    if status is not None:
        counts = matrix.counts[opcode, dtype]
        text = f"{counts[status]}/{counts.total()}" if len(counts) > 1 else str(counts.total())
        every = ", ".join(f"{n} {s.value}" for s, n in counts.most_common())
        return f'<td class="c {status.value}" title="{title}: {every}">{text}'
    if (opcode, dtype) in matrix.wanted:
        return f'<td class="c missing" title="{title}: not run">'
    if opcode in matrix.bare:
        return f'<td class="c missing" title="{opcode}: no case">'
    return f'<td class="c none" title="{title}: not taken">'


def _host(results: Sequence[CaseResult]) -> Iterator[str]:
    device = sum(r.device_instructions for r in results)
    host = sum(r.host_instructions for r in results)
    yield "<h2>Device and host</h2>"
    share = f" ({100 * device / (device + host):.1f}% on the device)" if device + host else ""
    yield f"<p>{device} instructions ran on the device, {host} on the host{share}.</p>"
    reasons = fallback_reasons(results)
    if reasons:
        yield _table(
            ["cases", "why they ran on the host"], [(c, r) for r, c in reasons.most_common()]
        )


def _cut(results: Sequence[CaseResult]) -> Iterator[str]:
    rows = [(r.id, r.cut) for r in results if r.cut]
    if rows:
        yield "<h2>Cut to the device's memory</h2>"
        yield _table(["case", "what was run"], rows)


def _slowest(results: Sequence[CaseResult]) -> Iterator[str]:
    slow = sorted(results, key=lambda r: -r.seconds)[:_SLOWEST]
    yield f"<h2>Slowest {len(slow)}</h2>"
    rows = [(r.id, f"{1e3 * r.seconds:.0f}") for r in slow]
    yield _table(["case", "ms, compilation included"], rows, numbers=(1,))


def _declared(declared: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    rows = [
        (kind, entry["id"], entry.get("tolerance", ""), entry["reason"])
        for kind, entries in declared.items()
        for entry in entries
    ]
    if rows:
        yield "<h2>Declared by the backend</h2>"
        yield _table(["kind", "cases", "tolerance", "reason"], rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int] = ()) -> str:
    def row(tag: str, cells: Sequence[Any]) -> str:
        made = (
            f"<{tag}{' class=n' if n in numbers else ''}>{escape(str(cell))}"
            for n, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(row("td", r) for r in rows)
    return f"<div class=scroll><table class=plain>{row('th', heads)}{body}</table></div>"
