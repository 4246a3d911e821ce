"""A plugin whose import ends as its attribute says: `raises_when_loaded:GeneratorExit`."""

import asyncio


def no_text(self):
    raise ValueError("no text")


def deep():
    return deep()


ERRORS = {
    "GeneratorExit": GeneratorExit(),
    "SystemExit": SystemExit(3),
    "CancelledError": asyncio.CancelledError(),
    "BaseException": BaseException("of its own"),
    "BaseExceptionGroup": BaseExceptionGroup("several", [GeneratorExit()]),
    "MemoryError": MemoryError("the table of opcodes"),
    "Unprintable": type("Unprintable", (Exception,), {"__str__": no_text})(),
    "KeyboardInterrupt": KeyboardInterrupt(),
}


def __getattr__(name):
    if name == "RecursionError":
        return deep()
    if name in ERRORS:
        raise ERRORS[name]
    raise AttributeError(name)
