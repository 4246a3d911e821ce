"""The wall around a plugin: whatever it raises or returns wrongly, the error names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from xladev.errors import OutOfMemoryError, PluginError, XladevError

T = TypeVar("T")


class plugin_call:
    """Turns what the block raises into an XladevError that names plugin and function.

    Errors of the XladevError tree pass, with their place filled in. `SystemExit` is caught: a
    plugin must not end the process; `KeyboardInterrupt` is not.

    Args:
        plugin: name of the plugin or device.
        function: of the contract, such as ``Executor.allocate``.
        on_error: called with the error before it is raised.

    Raises:
        XladevError: the block raised.
    """

    __slots__ = ("_function", "_on_error", "_plugin")

    def __init__(
        self, plugin: str, function: str, on_error: Callable[[XladevError], None] | None = None
    ) -> None:
        self._plugin = plugin
        self._function = function
        self._on_error = on_error

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: object
    ) -> Literal[False]:
        if raised is None or not isinstance(raised, (Exception, SystemExit)):
            return False
        error = as_error(raised, self._plugin, self._function)
        if self._on_error is not None:
            self._on_error(error)
        if error is raised:
            return False
        try:
            raise error from raised
        finally:
            del error, raised  # or the traceback's frames hold them, and they the frames


def as_error(raised: BaseException, plugin: str, function: str) -> XladevError:
    """The XladevError for what a plugin raised in a function."""
    where = f"{plugin}: {function}"
    if isinstance(raised, XladevError):
        return raised.at(where)
    error: XladevError
    if isinstance(raised, MemoryError):
        error = OutOfMemoryError("out of memory", where=where, why=str(raised))
    else:
        error = PluginError(
            f"plugin {plugin!r} raised {type(raised).__name__} in {function}",
            where=where,
            why=str(raised) or type(raised).__name__,
            hint="run `xladev doctor` for the traceback; XLADEV_PLUGINS=-NAME leaves a plugin out",
        )
    error.__cause__ = raised
    return error


def expect(value: object, kind: type[T], plugin: str, function: str) -> T:
    """``value`` if it is of the type that the contract says.

    Raises:
        PluginError: it is of another type.
    """
    if isinstance(value, kind):
        return value
    raise PluginError(
        f"plugin {plugin!r} returned {type(value).__name__} from {function}",
        where=f"{plugin}: {function}",
        why=f"the contract says {kind.__name__}",
    )


def expect_count(value: object, plugin: str, function: str) -> int:
    """``value`` if it is an integer of at least 0.

    Raises:
        PluginError: it is something else.
    """
    count = expect(value, int, plugin, function)
    if isinstance(value, bool) or count < 0:
        raise PluginError(
            f"plugin {plugin!r} returned {value!r} from {function}",
            where=f"{plugin}: {function}",
            why="the contract says a number of devices",
        )
    return count
