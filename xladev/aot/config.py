"""The configuration file of `xladev aot`: what the options say, in TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xladev.aot.selection import Binding, Feed, Fetch, Selection
from xladev.errors import FileError, FormatError


@dataclass(frozen=True, slots=True)
class Config:
    """What a file says; None for what it leaves out.

    Attributes:
        name: prefix of names in C.
        target: triple.
        cpu: processor level.
        platform: whose compiler makes the code.
        in_place: whether results may take the place of arguments.
        options: ``key=value`` of compile options.
        selection: feeds, constants, fetches.
    """

    name: str | None = None
    target: str | None = None
    cpu: str | None = None
    platform: str | None = None
    in_place: bool | None = None
    options: tuple[str, ...] = ()
    selection: Selection = Selection()


def read_config(path: Path) -> Config:
    """The configuration in a file.

    Raises:
        FileError: it cannot be read.
        FormatError: it is no TOML, or has keys or values that nobody knows.
    """
    try:
        text = path.read_bytes().decode()
        data = tomllib.loads(text)
    except OSError as error:
        raise FileError.of("cannot read", path, error) from error
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path} is no TOML", where=str(path), why=str(error), hint="see https://toml.io"
        ) from error
    return _Reader(path).config(data)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads tables, and says of which file what is wrong."""

    path: Path

    def config(self, data: Mapping[str, Any]) -> Config:
        """The whole file."""
        self._check_keys("the file", data, (*_PLAIN, *_TABLES, "options"))
        plain = {
            key: self._plain(key, data[key], kind) for key, kind in _PLAIN.items() if key in data
        }
        feeds, fetches, bindings = (
            tuple(make(self._entry(key, entry)) for entry in self._tables(key, data))
            for key, make in _TABLES.items()
        )
        return Config(
            **plain,
            options=self._options(data.get("options", {})),
            selection=Selection(feeds, fetches, bindings),
        )

    def _plain(self, key: str, value: Any, kind: type) -> Any:
        if type(value) is not kind:
            raise self._wrong(f"{key} is {value!r}", f"it is of type {_TYPE_NAMES[kind]}")
        return value

    def _tables(self, key: str, data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        tables = data.get(key, [])
        if isinstance(tables, list) and all(isinstance(t, dict) for t in tables):
            return tables
        raise self._wrong(f"{key} is {tables!r}", f"it is written as a table for each: [[{key}]]")

    def _entry(self, key: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """One feed, fetch or constant, checked."""
        allowed = {"what", "value"} if key == "constant" else {"what", "name"}
        self._check_keys(f"[[{key}]]", entry, tuple(sorted(allowed)))
        for wanted in {"what", "value"} & allowed:
            if wanted not in entry:
                raise self._wrong(f"a [[{key}]] has no `{wanted}`", f"it has {sorted(allowed)}")
        what = entry["what"]
        if isinstance(what, bool) or not isinstance(what, (str, int)):
            raise self._wrong(f"`what` of a [[{key}]] is {what!r}", "it is a name or a number")
        if not isinstance(entry.get("name", ""), str):
            raise self._wrong(f"`name` of a [[{key}]] is {entry['name']!r}", "it is text")
        made = {**entry, "what": str(what)}
        if isinstance(entry.get("value"), str):
            made["value"] = str(self.path.parent / entry["value"])
        return made

    def _options(self, table: Any) -> tuple[str, ...]:
        if not isinstance(table, dict):
            raise self._wrong(f"options is {table!r}", "it is a table: [options]")
        return tuple(
            f"{key}={str(value).lower() if isinstance(value, bool) else value}"
            for key, value in table.items()
        )

    def _check_keys(self, where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else None
                raise self._wrong(
                    f"{where} has an unknown key {key!r}", f"known are {', '.join(known)}", hint
                )

    def _wrong(self, what: str, why: str, hint: str | None = None) -> FormatError:
        return FormatError(
            f"{self.path}: {what}",
            where=str(self.path),
            why=why,
            hint=hint or "docs/how-to/ship-without-python.md has an example",
        )


_PLAIN: Mapping[str, type] = MappingProxyType(
    {"name": str, "target": str, "cpu": str, "platform": str, "in_place": bool}
)
_TYPE_NAMES: Mapping[type, str] = MappingProxyType({str: "text", bool: "true or false"})

_TABLES: Mapping[str, Callable[[Mapping[str, Any]], Any]] = MappingProxyType(
    {
        "feed": lambda entry: Feed(**entry),
        "fetch": lambda entry: Fetch(**entry),
        "constant": lambda entry: Binding(**entry),
    }
)
