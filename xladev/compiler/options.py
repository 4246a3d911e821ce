"""CompileOptions: everything that changes how a program is compiled, in one frozen value.

Options come, later ones winning, from defaults, `XLADEV_FLAGS` ("fusion=false npu.unroll=4"),
`XLADEV_STRICT=1` and `--option key=value`. A key with a dot is one platform's own (`npu.unroll`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any

from xladev.errors import OptionError
from xladev.passes.collectives.joined import BUCKET_NBYTES

Assignment = tuple[tuple[int, ...], ...]
Placement = tuple[tuple[str, str], ...]
"""Pairs of a pattern and a device or scope; see `xladev/compiler/placement/rules.py`."""
Scalar = bool | int | float | str
MOST_STREAMS = 64
Extras = Mapping[str, Scalar] | tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class PlatformOption:
    """An option that only one platform has.

    Attributes:
        key: its name, without the platform's.
        default: its value where none is given; another value must be of the same type.
        doc: one line: what it does.
    """

    key: str
    default: Scalar
    doc: str


def _option(default: Any, doc: str, *, cached: bool = True) -> Any:
    return field(default=default, metadata={"doc": doc, "cached": cached})


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile a program; see `OPTION_DOCS` for each field.

    Raises:
        OptionError: a value out of range.
    """

    optimization_level: int = _option(2, "0 compiles fastest, 3 runs fastest")
    num_replicas: int = _option(1, "copies of the program that run together on different data")
    num_partitions: int = _option(1, "parts that one program is split into")
    device_assignment: Assignment | None = _option(
        None, "device ordinals, one row per replica, one column per partition; 0,1;2,3"
    )
    threads: int | None = _option(None, "most threads that work on one run; unset: the platform's")
    deterministic: bool = _option(False, "same bits on every run, at any number of threads")
    rng_seed: int = _option(0, "start of the hidden state that rng draws from; 64 bits")
    fusion: bool = _option(True, "join producers and consumers into one kernel")
    compilation_level: int = _option(
        2, "what is compiled together: 0 scopes alone, 1 clusters on one device, 2 the program"
    )
    op_by_op: bool = _option(
        False, "compilation level 0: each instruction by itself; the SDK runs control flow"
    )
    min_cluster_size: int = _option(
        4, "instructions of the smallest cluster of level 1; fewer are compiled one by one"
    )
    scopes: Placement = _option(
        (), "scopes by pattern of opcode, op name or name: op:*/decoder/*=decoder; -: alone"
    )
    schedule: bool = _option(True, "order instructions so that less memory is needed at once")
    all_reduce_bucket: int = _option(
        BUCKET_NBYTES, "most bytes of all-reduces of the same devices that become one; 0: none do"
    )
    overlap_collectives: bool = _option(
        True, "begin collectives early and end them late, on devices that run them beside kernels"
    )
    streams: int | None = _option(
        None, "streams that independent kernels go to, on devices that have several; unset: by cost"
    )
    memory_limit: int | None = _option(
        None, "bytes that one run should do with: values are recomputed; unset: the device's"
    )
    target: str | None = _option(None, "what to generate code for; unset: the device present")
    devices: tuple[str, ...] = _option(
        (), "devices that instructions go to as that takes least time, by estimate: npu:0,npu:1,cpu"
    )
    placement: Placement = _option(
        (), "devices by pattern of opcode, op name or name: opcode:dot=npu:0,op:*/decoder/*=npu:1"
    )
    soft_placement: bool = _option(
        True, "what its device does not take is moved; false: that is an error"
    )
    strict: bool = _option(False, "an instruction that would fall back to the host is an error")
    verify_passes: bool = _option(False, "check the program after each pass", cached=False)
    dump_to: str | None = _option(None, "folder to write intermediate products to", cached=False)
    dump_filter: str = _option("", "regular expression of the dumps wanted", cached=False)
    extras: Extras = _option((), "options of one platform only, written platform.key=value")

    def __post_init__(self) -> None:
        object.__setattr__(self, "extras", _checked_extras(self.extras))
        if self.devices:
            object.__setattr__(self, "devices", _checked_devices(self.devices))
        for name in ("placement", "scopes"):
            if getattr(self, name):
                pairs = _checked_pairs(name, getattr(self, name))
                object.__setattr__(self, name, pairs)
        if isinstance(self.dump_to, os.PathLike):
            object.__setattr__(self, "dump_to", os.fspath(self.dump_to))
        for f in fields(self):
            _check_type(f.name, getattr(self, f.name), f.default)
        _check_range("optimization_level", self.optimization_level, 0, 3)
        _check_range("compilation_level", self.compilation_level, 0, 2)
        _check_range("min_cluster_size", self.min_cluster_size, 1)
        _check_range("num_replicas", self.num_replicas, 1)
        _check_range("num_partitions", self.num_partitions, 1)
        _check_range("rng_seed", self.rng_seed, 0, 2**64 - 1)
        _check_range("all_reduce_bucket", self.all_reduce_bucket, 0)
        if self.threads is not None:
            _check_range("threads", self.threads, 1)
        if self.streams is not None:
            _check_range("streams", self.streams, 1, MOST_STREAMS)
        if self.memory_limit is not None:
            _check_range("memory_limit", self.memory_limit, 0)
        if self.device_assignment is not None:
            self._check_assignment(self.device_assignment)

    @property
    def level(self) -> int:
        """The level of compilation, `op_by_op` being another word for 0."""
        return 0 if self.op_by_op else self.compilation_level

    def _check_assignment(self, rows: Assignment) -> None:
        wanted = (self.num_replicas, self.num_partitions)
        if len(rows) != wanted[0] or any(len(row) != wanted[1] for row in rows):
            raise OptionError(
                f"device_assignment has {[len(row) for row in rows]} columns by row",
                why=f"{wanted[0]} replicas of {wanted[1]} partitions need one device each",
            )

    def extra(self, platform: str, key: str, default: Scalar) -> Scalar:
        """The value of ``platform.key``, which must be of the type of ``default``.

        Raises:
            OptionError: it is of another type.
        """
        value = dict(self.extras).get(f"{platform}.{key}", default)
        if type(value) is not type(default):
            raise OptionError(
                f"option {platform}.{key} is {value!r}",
                why=f"it must be of type {type(default).__name__}",
            )
        return value

    def with_option(self, text: str) -> CompileOptions:
        """These options with ``key=value`` changed; a key alone means true.

        Raises:
            OptionError: an unknown key or a value of wrong type.
        """
        key, equals, value = text.strip().lstrip("-").partition("=")
        key, value = key.replace("-", "_"), value if equals else "true"
        if "." in key:
            return replace(self, extras=dict(self.extras) | {key: _parse_scalar(value)})
        return replace(self, **{key: _parse(key, value)})

    def with_options(self, texts: Iterable[str]) -> CompileOptions:
        """These options with each ``key=value`` changed in turn."""
        options = self
        for text in texts:
            options = options.with_option(text)
        return options

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> CompileOptions:
        """Defaults changed by `XLADEV_FLAGS` and `XLADEV_STRICT`."""
        found = os.environ if environment is None else environment
        options = CompileOptions().with_options(_split(found.get("XLADEV_FLAGS", "")))
        if found.get("XLADEV_STRICT"):
            options = options.with_option(f"strict={found['XLADEV_STRICT']}")
        return options

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        return data | {"extras": dict(self.extras)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CompileOptions:
        """The options that `to_json` wrote.

        Raises:
            OptionError: unknown keys or values of wrong type.
        """
        known = dict(data)
        rows = known.get("device_assignment")
        if rows is not None:
            known["device_assignment"] = tuple(tuple(row) for row in rows)
        unknown = known.keys() - OPTION_DOCS.keys()
        if unknown:
            raise _unknown_option(min(unknown))
        return CompileOptions(**known)

    def cache_key(self) -> str:
        """Hex digest of all options that change what is generated (not of dumps)."""
        data = self.to_json()
        kept = {f.name: data[f.name] for f in fields(self) if f.metadata["cached"]}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


OPTION_DOCS: Mapping[str, str] = {f.name: f.metadata["doc"] for f in fields(CompileOptions)}
"""One line of documentation by option name, in the order of the fields."""


def _parse_bool(text: str) -> bool:
    spelled = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    return spelled[text.lower()]


def _parse_assignment(text: str) -> Assignment:
    return tuple(tuple(int(d) for d in row.split(",")) for row in text.split(";"))


def _parse_devices(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _parse_placement(text: str) -> Placement:
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    if not all(pattern.strip() and device.strip() for pattern, _, device in pairs):
        raise ValueError(text)
    return tuple((pattern.strip(), device.strip()) for pattern, _, device in pairs)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "optimization_level": int,
    "num_replicas": int,
    "num_partitions": int,
    "device_assignment": _parse_assignment,
    "threads": int,
    "deterministic": _parse_bool,
    "rng_seed": int,
    "fusion": _parse_bool,
    "compilation_level": int,
    "op_by_op": _parse_bool,
    "min_cluster_size": int,
    "all_reduce_bucket": int,
    "scopes": _parse_placement,
    "schedule": _parse_bool,
    "overlap_collectives": _parse_bool,
    "streams": int,
    "memory_limit": int,
    "target": str,
    "devices": _parse_devices,
    "placement": _parse_placement,
    "soft_placement": _parse_bool,
    "strict": _parse_bool,
    "verify_passes": _parse_bool,
    "dump_to": str,
    "dump_filter": str,
}


_TEXTS = frozenset(key for key, parser in _PARSERS.items() if parser is str)


def _parse(key: str, text: str) -> Any:
    parser = _PARSERS.get(key)
    if parser is None:
        raise _unknown_option(key)
    try:
        return parser(text)
    except (KeyError, ValueError) as e:
        raise OptionError(f"option {key} cannot be {text!r}", why=OPTION_DOCS[key]) from e


def _parse_scalar(text: str) -> Scalar:
    """The JSON scalar that ``text`` spells, or else ``text`` itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (bool, int, float, str)) else text


def _checked_extras(extras: Extras) -> tuple[tuple[str, Scalar], ...]:
    """Sorted pairs, so that equal options hash alike."""
    try:
        pairs = dict(extras)
    except (TypeError, ValueError) as e:
        raise OptionError(f"extras are {extras!r}", why="they are values by platform.key") from e
    for key, value in pairs.items():
        platform, dot, name = str(key).partition(".")
        if not (platform and dot and name and isinstance(value, (bool, int, float, str))):
            raise OptionError(
                f"platform option {key!r} is {value!r}",
                why="the key is platform.key, the value a number, a string or true or false",
            )
    return tuple(sorted(pairs.items()))


def _checked_devices(names: object) -> tuple[str, ...]:
    rows = names if isinstance(names, Sequence) and not isinstance(names, str) else (None,)
    if all(isinstance(name, str) for name in rows):
        return tuple(rows)
    raise OptionError(
        f"devices are {names!r}",
        why="they are names of devices",
        hint='write devices=("npu:0", "cpu")',
    )


def _checked_pairs(name: str, pairs: object) -> Placement:
    rows = pairs.items() if isinstance(pairs, Mapping) else pairs
    try:
        made = tuple((pattern, word) for pattern, word in rows)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        made = ((None, None),)
    if not all(isinstance(word, str) and word for pair in made for word in pair):
        what, first, second = _PAIRS[name]
        raise OptionError(
            f"{name} is {pairs!r}",
            why=f"it is pairs of a pattern and the name of a {what}",
            hint=f'write {name}=(("opcode:dot", "{first}"), ("op:*/decoder/*", "{second}"))',
        )
    return made


_PAIRS = {"placement": ("device", "npu:0", "npu:1"), "scopes": ("scope", "products", "decoder")}
"""What the options of pairs name, with two examples."""


def _unknown_option(key: str) -> OptionError:
    close = get_close_matches(key, OPTION_DOCS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(OPTION_DOCS)}"
    return OptionError(f"unknown option {key!r}", hint=hint)


def _check_type(name: str, value: Any, default: Any) -> None:
    """Refuses what is no text or no truth value where that is wanted: "false" counts as true."""
    if type(default) is bool and type(value) is not bool:
        raise OptionError(f"option {name} is {value!r}", why="it must be True or False")
    if name in _TEXTS and not (value is default or isinstance(value, str)):
        raise OptionError(f"option {name} is {value!r}", why="it must be text")


def _check_range(name: str, value: Any, low: int, high: int | None = None) -> None:
    if type(value) is int and low <= value and (high is None or value <= high):
        return
    upper = "" if high is None else f" to {high}"
    raise OptionError(f"option {name} is {value!r}", why=f"it must be an integer from {low}{upper}")


def _split(flags: str) -> list[str]:
    try:
        return shlex.split(flags)
    except ValueError as e:
        raise OptionError(f"XLADEV_FLAGS cannot be split: {flags!r}", why=str(e)) from e
