"""Reads HLO text token by token and reports errors with line, column and caret.

One compiled expression recognises every token, so the cost of a token is one regex match. Blanks
and comments (``/* */``, ``//`` to the end of the line) are skipped everywhere.
"""

from __future__ import annotations

import re
from typing import NoReturn

from xladev.errors import ParseError, printable

END = "end of text"
NAME = "name"
WORD = "word"
NUMBER = "number"
STRING = "string"
LABELS = "labels"
PUNCTUATION = "punctuation"
BAD = "bad"

_TOKEN = re.compile(
    r"""(?:[ \t\r\n]++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+)*+
    (?:(?P<labels>[0-9a-z?]++_[0-9a-z?]++->[0-9a-z?]*+)
    |(?P<word>[A-Za-z_][\w.\-]*+)
    |(?P<punctuation>->|<=|[{}()\[\],=:<>@\#*;+~|/?])
    |(?P<number>-?\.?[0-9](?:[\w.?]|(?<=[eE_x])[-+])*+|-(?:inf|nan)(?![\w.]))
    |(?P<name>%[\w.\-]++|%"[^"\\]*+(?:\\.[^"\\]*+)*+")
    |(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+')
    |(?P<bad>.))?""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = re.compile(r"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_INT = re.compile(r"-?[0-9]+\Z")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MAX_INT_DIGITS = 20
_SHOWN = 100


class Cursor:
    """A position in HLO text with the token that begins there.

    Attributes:
        text: the whole source.
        kind: what the current token is; one of this module's constants.
        value: spelling of the current token; a name is without its ``%``.
        start: offset of the current token.
        end: offset behind it.
    """

    __slots__ = ("end", "kind", "start", "text", "value")

    def __init__(self, text: str) -> None:
        self.text = text
        self.kind = END
        self.value = ""
        self.start = 0
        self.end = 0
        if not text.isascii():
            self._check_characters()
        self.advance()

    def _check_characters(self) -> None:
        """Refuses halves of surrogate pairs, which no encoded text has."""
        found = _SURROGATE.search(self.text)
        if found is not None:
            self.fail("the text holds half of a surrogate pair", found.start())

    def advance(self) -> None:
        """Moves to the next token."""
        found = _TOKEN.match(self.text, self.end)
        kind = found.lastgroup if found is not None else None
        if found is None or kind is None:
            self.kind, self.value = END, ""
            self.start = self.end = len(self.text)
            return
        self.kind = kind
        self.value = value = found.group(kind)
        self.end = found.end()
        self.start = self.end - len(value)
        if kind == NAME:
            self.value = value[1:] if value[1] != '"' else unescape(value[2:-1])

    def seek(self, offset: int) -> None:
        """Moves to the token at or after ``offset``."""
        self.end = offset
        self.advance()

    def look_ahead(self) -> tuple[str, str]:
        """Kind and spelling of the token behind the current one."""
        found = _TOKEN.match(self.text, self.end)
        if found is None or found.lastgroup is None:
            return END, ""
        return found.lastgroup, found.group(found.lastgroup)

    # -- taking tokens

    def accept(self, punctuation: str) -> bool:
        """Takes the token if it is this punctuation."""
        if self.value == punctuation and self.kind == PUNCTUATION:
            self.advance()
            return True
        return False

    def expect(self, punctuation: str, where: str = "") -> None:
        """Takes this punctuation or fails; ``where`` completes the message."""
        if self.value == punctuation and self.kind == PUNCTUATION:
            self.advance()
        else:
            self.fail(f"expected {punctuation!r}{' ' + where if where else ''}, not {self.seen()}")

    def sees(self, punctuation: str) -> bool:
        """True if the token is this punctuation."""
        return self.value == punctuation and self.kind == PUNCTUATION

    def accept_word(self, word: str) -> bool:
        """Takes the token if it is this bare word."""
        if self.value == word and self.kind == WORD:
            self.advance()
            return True
        return False

    def sees_word(self, word: str) -> bool:
        """True if the token is this bare word."""
        return self.value == word and self.kind == WORD

    def word(self, what: str = "a word") -> str:
        """Takes a bare word."""
        if self.kind != WORD:
            self.fail(f"expected {what}, not {self.seen()}")
        value = self.value
        self.advance()
        return value

    def name(self, what: str = "a name") -> str:
        """Takes a name with or without ``%``."""
        if self.kind != NAME and self.kind != WORD:
            self.fail(f"expected {what}, not {self.seen()}")
        value = self.value
        self.advance()
        return value

    def integer(self, what: str = "an integer") -> int:
        """Takes an integer that fits 64 bits, signed or unsigned."""
        value = self.value
        if self.kind != NUMBER or len(value) > _MAX_INT_DIGITS or not _INT.match(value):
            self.fail(f"expected {what}, not {self.seen()}")
        number = int(value)
        if not -(2**63) <= number < 2**64:
            self.fail(f"integer {value} does not fit 64 bits")
        self.advance()
        return number

    def signed(self, what: str = "an integer") -> int:
        """Takes an integer that fits a signed 64-bit field."""
        start = self.start
        number = self.integer(what)
        if number >= 2**63:
            self.fail(f"integer {number} does not fit 64 signed bits", start)
        return number

    def signed32(self, what: str = "an integer") -> int:
        """Takes an integer that fits a signed 32-bit field, as of a line or a column."""
        start = self.start
        number = self.integer(what)
        if not -(2**31) <= number < 2**31:
            self.fail(f"integer {number} does not fit 32 signed bits", start)
        return number

    def boolean(self) -> bool:
        """Takes ``true`` or ``false``, or 1 or 0."""
        value = {"true": True, "false": False, "1": True, "0": False}.get(self.value)
        if value is None or self.kind not in (WORD, NUMBER):
            self.fail(f"expected true or false, not {self.seen()}")
        self.advance()
        return value

    def string(self, what: str = "a quoted string") -> str:
        """Takes a quoted string and undoes its escapes."""
        if self.kind != STRING:
            self.fail(f"expected {what}, not {self.seen()}")
        value = self.value[1:-1]
        self.advance()
        return unescape(value) if "\\" in value else value

    # -- errors

    def seen(self) -> str:
        """The current token, as error messages show it."""
        if self.kind == END:
            return "the end of the text"
        if self.kind == BAD and self.value == '"':
            return "a string without its closing quote"
        shown = self.value if len(self.value) <= _SHOWN else self.value[:_SHOWN] + "..."
        return repr("%" + shown if self.kind == NAME else shown)

    def fail(
        self, what: str, at: int | None = None, *, why: str | None = None, hint: str | None = None
    ) -> NoReturn:
        """Raises a ParseError that shows the line at offset ``at`` (the current token)."""
        raise self.error(what, at, why=why, hint=hint)

    def error(
        self, what: str, at: int | None = None, *, why: str | None = None, hint: str | None = None
    ) -> ParseError:
        """The ParseError that ``fail`` would raise."""
        where = locate(self.text, self.start if at is None else at)
        return ParseError(what, where=where, why=why, hint=hint)


def locate(text: str, offset: int) -> str:
    """``line L, column C``, the line and a caret under the column; long lines are cut."""
    begin = text.rfind("\n", 0, offset) + 1
    stop = text.find("\n", offset)
    line = text[begin : len(text) if stop < 0 else stop]
    column = offset - begin
    number = text.count("\n", 0, offset) + 1
    first = max(0, column - _SHOWN // 2)
    before, after = (
        printable(part.replace("\t", " ").replace("\r", " "))
        for part in (line[first:column], line[column : first + _SHOWN])
    )
    shown, caret = before + after, " " * len(before) + "^"
    return f"line {number}, column {column + 1}\n    {shown}\n    {caret}"


def unescape(text: str) -> str:
    """Undoes C escapes; octal and hexadecimal ones are bytes of UTF-8."""
    if not _NUMERIC_ESCAPE.search(text):
        return _ESCAPED.sub(_unescape_one, text)
    raw = _ESCAPED.sub(_unescape_one, text).encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")


_NUMERIC_ESCAPE = re.compile(r"\\[0-7xX]")


def _unescape_one(found: re.Match[str]) -> str:
    body = found.group(1)
    if body[0] in "01234567":
        return _byte(int(body, 8) & 0xFF)
    if body[0] in "xX" and len(body) > 1:
        return _byte(int(body[1:], 16))
    if body[0] == "u" and len(body) == 5:
        char = chr(int(body[1:], 16))
        return "\ufffd" if "\ud800" <= char <= "\udfff" else char
    return _ESCAPES.get(body, body)


def _byte(value: int) -> str:
    """One byte; those beyond ASCII as surrogates, to be joined into UTF-8 afterwards."""
    return chr(value) if value < 0x80 else chr(0xDC00 + value)


def escape(text: str) -> str:
    """C-escapes text for printing between double quotes; the inverse of ``unescape``."""
    if text.isprintable() and '"' not in text and "\\" not in text and "'" not in text:
        return text
    return "".join(map(_escape_one, text))


_ESCAPED_BY = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\"}


def _escape_one(char: str) -> str:
    if char in _ESCAPED_BY:
        return _ESCAPED_BY[char]
    if " " <= char <= "~":
        return char
    is_byte = "\udc80" <= char <= "\udcff"
    raw = char.encode("utf-8", "surrogateescape" if is_byte else "replace")
    return "".join(f"\\{b:03o}" for b in raw)
