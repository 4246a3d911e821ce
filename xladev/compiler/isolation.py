"""The wall around a plugin: whatever it raises or returns wrongly, the error names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from xladev.errors import OutOfMemoryError, PluginError, XladevError
from xladev.instrument import is_interruption

T = TypeVar("T")

_ASKED_BY_DOCTOR = (
    "import", "registration of", "xladev_platforms", "PlatformSpec.", "Platform.version",
    "Platform.visible_device_count", "Platform.create_executor", "Executor.describe",
    "Executor.create_stream", "Compiler.describe",
)  # fmt: skip
"""Functions that `xladev doctor` calls, so that their tracebacks are in its report."""

_ON_DEVICE = ("Executor.", "LoadedExecutable.", "Stream.", "Event")
"""Functions that work in the device's memory. MemoryError elsewhere is about the host's."""


class plugin_call:
    """Turns what the block raises into an XladevError that names plugin and function.

    Errors of the XladevError tree pass, with their place filled in. Whatever else a plugin raises
    is caught, `SystemExit` and `GeneratorExit` too: see `is_contained`.

    Args:
        plugin: name of the plugin or device.
        function: of the contract, such as ``Executor.allocate``.
        on_error: called with the error before it is raised.
        where: the place of errors that say none; empty for plugin and function.

    Raises:
        XladevError: the block raised.
    """

    __slots__ = ("_function", "_on_error", "_plugin", "_where")

    def __init__(
        self,
        plugin: str,
        function: str,
        on_error: Callable[[XladevError], None] | None = None,
        where: str = "",
    ) -> None:
        self._where = where
        self._plugin = plugin
        self._function = function
        self._on_error = on_error

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: object
    ) -> Literal[False]:
        if raised is None or not is_contained(raised):
            return False
        error = as_error(raised, self._plugin, self._function, self._where)
        if self._on_error is not None:
            self._on_error(error)
        if error is raised:
            return False
        try:
            raise error from raised
        finally:
            del error, raised  # or the traceback's frames hold them, and they the frames


def is_contained(raised: BaseException) -> bool:
    """True for what a plugin raised; False for Ctrl-C and what handlers of signals raise."""
    return not is_interruption(raised)


def as_error(raised: BaseException, plugin: str, function: str, where: str = "") -> XladevError:
    """The XladevError for what a plugin raised in a function."""
    where = where or f"{plugin}: {function}"
    if isinstance(raised, XladevError):
        return raised.at(where)
    error: XladevError
    if isinstance(raised, MemoryError) and function.startswith(_ON_DEVICE):
        error = OutOfMemoryError("out of memory", where=where, why=_text(raised))
    else:
        error = PluginError(
            f"plugin {plugin!r} raised {type(raised).__name__} in {function}",
            where=where,
            why=_text(raised) or type(raised).__name__,
            hint=_hint(function),
        )
    error.__cause__ = raised
    return error


def _hint(function: str) -> str:
    """Where the traceback is to be had: doctor shows that of what it calls itself."""
    if function.startswith(_ASKED_BY_DOCTOR):
        return "run `xladev doctor` for the traceback; XLADEV_PLUGINS=-NAME leaves a plugin out"
    return "the traceback names the plugin's line; a command shows it as `xladev --traceback ...`"


def _text(raised: BaseException) -> str:
    """What an error of a plugin says; its ``__str__`` may raise too."""
    try:
        return str(raised)
    except BaseException as e:
        if not is_contained(e):
            raise
        return f"{type(raised).__name__}, whose __str__ raised {type(e).__name__}"


def expect(value: object, kind: type[T], plugin: str, function: str, where: str = "") -> T:
    """``value`` if it is of the type that the contract says.

    Raises:
        PluginError: it is of another type.
    """
    if isinstance(value, kind):
        return value
    raise PluginError(
        f"plugin {plugin!r} returned {type(value).__name__} from {function}",
        where=where or f"{plugin}: {function}",
        why=f"the contract says {kind.__name__}",
    )


def expect_count(value: object, plugin: str, function: str, at_most: int) -> int:
    """``value`` if it is an integer from 0 to ``at_most``.

    Raises:
        PluginError: it is something else.
    """
    count = expect(value, int, plugin, function)
    if isinstance(value, bool) or not 0 <= count <= at_most:
        raise PluginError(
            f"plugin {plugin!r} returned {_number(count)} from {function}",
            where=f"{plugin}: {function}",
            why=f"the contract says a number of devices, from 0 to {at_most}",
            hint="the driver's answer is no count: look at the call that it comes from",
        )
    return count


def _number(value: int) -> str:
    """``value`` in digits, unless they are so many that Python refuses to write them."""
    return repr(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"
