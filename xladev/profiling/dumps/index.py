"""The index of a folder of dumps: each compilation, with links to all that it wrote."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from itertools import groupby
from types import MappingProxyType
from urllib.parse import quote

from xladev.errors import counted, printable
from xladev.profiling.dumps.records import Record

_STAGES: Mapping[str, str] = MappingProxyType(
    {
        "program.txt": "program: regions, transfers, what fell back and why",
        "buffers.txt": "buffer assignment: kernels and their memory",
        "decisions.txt": "decisions: why instructions were or were not joined, and copies",
        "timings.txt": "timings of all steps",
        "fused.hlo": "kernels",
        "scheduled.hlo": "kernels in the order that needs least memory",
        "rematerialized.hlo": "kernels repeated for a limit of memory",
        "prepared.hlo": "after passes and expansions",
    }
)
"""What files are, by how they end."""
_CODE: Mapping[str, str] = MappingProxyType(
    {
        "optimized.ll": "LLVM, optimised", "ll": "LLVM, as emitted", "s": "assembly",
        "ptx": "PTX", "npu.s": "instructions of the NPU",
    }
)  # fmt: skip


def index_page(records: Sequence[Record], title: str) -> str:
    """The page; it refers to nothing but the files beside it.

    Args:
        records: in the order of time.
        title: of the folder.
    """
    groups: dict[tuple[int, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record.pid, record.number), []).append(record)
    processes = len({pid for pid, _ in groups})
    nbytes = sum(r.nbytes for r in records)
    body = "\n".join(_compilation(members) for members in groups.values())
    parts = {
        "TITLE": _text(title),
        "COUNTS": ", ".join(
            (
                f"{counted(len(groups), 'compilation')} of {counted(processes, 'process')}",
                counted(len(records), "file"),
                counted(nbytes, "byte"),
            )
        ),
        "BODY": body or "<p>Nothing was dumped yet.</p>",
    }
    page = files(__package__).joinpath("index.html").read_text("utf-8")
    return "".join(parts.get(piece, piece) for piece in page.split("@@"))


def _compilation(records: Sequence[Record]) -> str:
    first, last = records[0], records[-1]
    when = datetime.fromtimestamp(first.at).strftime("%Y-%m-%d %H:%M:%S")
    rows = "\n".join(_sections(records))
    return (
        f"<section><h2>{_text(first.title)} <small>for {_text(first.platform)}, process "
        f"{first.pid}, {when}, {last.at - first.at:.2f} s, {len(records)} files</small></h2>\n"
        f"{rows}</section>"
    )


def _sections(records: Sequence[Record]) -> Iterator[str]:
    passes = [r for r in records if _pass_of(r)]
    code = [r for r in records if r.suffix in _CODE or r.name.endswith(".optimized")]
    others = [r for r in records if r not in passes and r not in code]
    yield _table("Stages", ("stage", "file", "bytes"), map(_stage, others))
    if passes:
        rows = (_pass_row(name, list(of)) for name, of in groupby(passes, _round_of(passes)))
        head = ("pass", "text", "what changed", "bytes before", "after")
        yield _table("Passes that changed it", head, rows)
    if code:
        yield _table("Code", ("part", "what", "file", "bytes"), map(_code, code))


class _round_of:
    """Numbers runs of passes: a pass that runs again is another row."""

    def __init__(self, passes: Sequence[Record]) -> None:
        self._rounds: dict[str, tuple[str, int]] = {}
        number, current = 0, ""
        for record in passes:
            name = _pass_of(record)
            if name != current or (record.suffix == "hlo" and ".before_" in record.name):
                number, current = number + 1, name
            self._rounds[record.file] = (name, number)

    def __call__(self, record: Record) -> tuple[str, int]:
        return self._rounds[record.file]


def _pass_of(record: Record) -> str:
    """The pass that a file is about, or nothing."""
    for mark in (".before_", ".after_"):
        if mark in record.name and record.suffix.endswith(("hlo", "html")):
            return record.name.partition(mark)[2]
    return ""


def _pass_row(key: tuple[str, int], records: Sequence[Record]) -> Sequence[str]:
    name, _ = key
    texts = [r for r in records if r.suffix == "hlo"]
    pages = [r for r in records if r.suffix.endswith(".html")]
    words = ("before" if ".before_" in r.name else "after" for r in texts)
    sizes = dict(zip(words, texts, strict=True))
    return (
        _text(name),
        " ".join(_link(r, word) for word, r in sizes.items()),
        " ".join(_link(r, "graphs" if r.suffix.startswith("graph") else "text") for r in pages),
        *(f"{sizes[word].nbytes:,}" if word in sizes else "" for word in ("before", "after")),
    )


def _stage(record: Record) -> Sequence[str]:
    what = next((doc for end, doc in _STAGES.items() if _full(record).endswith(f".{end}")), "")
    if not what and record.name == record.title:
        what = {"hlo": "the module as read", "dot": "the same, for Graphviz"}.get(record.suffix, "")
    if not what and record.suffix == "dot":
        what = "the same, for Graphviz"
    return _text(what or record.suffix), _link(record, record.file), f"{record.nbytes:,}"


def _code(record: Record) -> Sequence[str]:
    is_optimized = record.name.endswith(".optimized")
    what = _CODE.get(f"optimized.{record.suffix}" if is_optimized else record.suffix, record.suffix)
    part = record.name.removesuffix(".optimized")
    return _text(part), _text(what), _link(record, record.file), f"{record.nbytes:,}"


def _full(record: Record) -> str:
    return f"{record.name}.{record.suffix}"


def _table(title: str, head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    cells = "".join(f"<th>{_text(word)}</th>" for word in head)
    lines = "\n".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<details open><summary>{_text(title)}</summary>"
        f"<table><thead><tr>{cells}</tr></thead><tbody>\n{lines}\n</tbody></table></details>\n"
    )


def _link(record: Record, word: str) -> str:
    # a browser takes .dot for a word processor's file
    how = "download" if record.suffix == "dot" else 'target="_blank" rel="noopener"'
    return f'<a href="{quote(record.file)}" {how}>{_text(word)}</a>'


def _text(text: str) -> str:
    """Safe in a page, without what its template takes for marks."""
    return html.escape(printable(text)).replace("@", "&#64;")
