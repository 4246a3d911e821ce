"""Docstrings as Markdown: paragraphs as they are, sections such as ``Args:`` as lists."""

import inspect
import re
from textwrap import dedent, fill
from typing import Any

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Example):$")
ITEM = re.compile(r"^(\*?[\w, ]+): (.+)$")


def section(name: str, thing: Any, level: str, *, signature: bool = True) -> str:
    """A heading with the signature, then the docstring.

    Args:
        name: as the reader knows the thing.
        thing: function, property or class.
        level: ``##`` or ``###``.
        signature: False to leave it out.
    """
    shown = signature_of(thing) if signature else ""
    return f"{level} `{name}{shown}`\n\n{as_markdown(inspect.getdoc(thing) or '')}\n"


def signature_of(thing: Any) -> str:
    """The signature without annotations; objects that are defaults as `Class()`."""
    if isinstance(thing, property):
        return ""
    parameters = inspect.signature(thing).parameters.values()
    kept = [p.replace(annotation=p.empty) for p in parameters if p.name != "self"]
    return re.sub(r"=(\w+)\(.*\)\)$", r"=\1())", str(inspect.Signature(kept)))


def as_markdown(docstring: str) -> str:
    """The docstring in Markdown."""
    return "\n\n".join(map(_paragraph, docstring.strip().split("\n\n")))


def _paragraph(text: str) -> str:
    title, _, rest = text.partition("\n")
    found = SECTION.match(title)
    if not found:
        return _wrapped(text)
    return f"{found[1]}:\n\n" + "\n".join(_items(dedent(rest)))


def _items(text: str) -> list[str]:
    """One list item per unindented line, with the lines that continue it."""
    items: list[str] = []
    for line in text.split("\n"):
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        elif not ITEM.match(line) and items and not ITEM.match(items[-1]):
            items[-1] += f" {line}"
        else:
            items.append(line)
    return [_wrapped(ITEM.sub(r"`\1`: \2", item), "- ", "  ") for item in items]


def _wrapped(text: str, first: str = "", later: str = "") -> str:
    """Lines of at most 100 characters, beginning as given; code in single ticks."""
    plain = " ".join(text.split()).replace("``", "`")
    return fill(
        plain, 100, initial_indent=first, subsequent_indent=later,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
