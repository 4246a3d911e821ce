"""What runs beside the backend, in the worker: compiles and runs one case, or one check.

The parent sends a module with arguments and gets arrays, or what went wrong; it judges them there.
Device memory that a case leaves allocated is part of the answer.
"""

from __future__ import annotations

import importlib
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xladev.client import CompiledModule, compile
from xladev.compiler.options import CompileOptions
from xladev.errors import UnsupportedError, XladevError
from xladev.hlo.literal import Array
from xladev.testing.arrays import nested
from xladev.testing.conformance.probe import NotOffered, Probe
from xladev.testing.noise import leaves
from xladev.testing.wire import pack, unpack, unpack_module

Made = TypeVar("Made")


def serve(request: bytes) -> bytes:
    """Answers one request; failures of the backend are answers, too."""
    head, arrays, proto = unpack(request)
    start = time.perf_counter()
    try:
        if head.get("memory"):
            return pack(
                {"nbytes": Probe(head["backend"]).device.description.memory_space(0).nbytes}
            )
        if head["check"]:
            return _run_check(head, start)
        return _run_program(head, arrays, proto, start)
    except NotOffered as error:
        return pack({"problem": str(error), "kind": "not-offered", "seconds": _since(start)})
    except UnsupportedError as error:
        return pack({"problem": str(error), "kind": "unsupported", "seconds": _since(start)})
    except XladevError as error:
        return pack({"problem": str(error), "kind": "error", "seconds": _since(start)})
    except (Exception, SystemExit, KeyboardInterrupt):  # noqa: BLE001 - whatever a plugin raises
        text = traceback.format_exc(limit=-6)
        return pack({"problem": text, "kind": "error", "seconds": _since(start)})


def _since(start: float) -> float:
    return time.perf_counter() - start


def _run_check(head: dict[str, Any], start: float) -> bytes:
    module, _, name = head["check"].partition(":")
    function = getattr(importlib.import_module(module), name)
    probe = Probe(head["backend"])
    _, leaked = _leaving_nothing(probe, 1, lambda: function(probe))
    cut = "; ".join(dict.fromkeys(probe.cuts))
    return pack({"seconds": _since(start), "leaked_nbytes": leaked, "cut": cut})


def _run_program(
    head: dict[str, Any], arrays: Sequence[Array], proto: bytes, start: float
) -> bytes:
    (facts, results), leaked = _leaving_nothing(
        Probe(head["backend"]), head["devices"], lambda: _computed(head, arrays, proto)
    )
    return pack({**facts, "seconds": _since(start), "leaked_nbytes": leaked}, results)


def _leaving_nothing(probe: Probe, count: int, work: Callable[[], Made]) -> tuple[Made, int]:
    """What ``work`` gives, and the bytes of device memory that were not given back by its end."""
    devices = probe.some_devices(count)
    before = sum(d.memory_stats().nbytes_in_use for d in devices)
    made = work()
    after = sum(d.memory_stats().nbytes_in_use for d in devices)
    if after > before:  # some objects go with the garbage only, and collecting it takes time
        after = probe.live_nbytes(*devices)
    return made, max(0, after - before)


def _computed(
    head: dict[str, Any], arrays: Sequence[Array], proto: bytes
) -> tuple[dict[str, Any], list[Array]]:
    """Facts about a program, and copies of the arrays of all its runs."""
    module = unpack_module(proto)
    options = CompileOptions.from_environment().with_options(head["options"])
    compiled = compile(module, head["backend"], options)
    shapes = [p.shape for p in module.entry.parameters]
    given = iter(arrays)
    results: list[list[Array]] = []
    for _ in range(head["runs"]):
        row = [nested(shape, given) for shape in shapes]
        found = compiled.run_on_devices([row] * len(compiled.devices))
        results.append([np.array(leaf) for values in found for leaf in leaves(values)])
    facts = {"counts": [len(r) for r in results], **_facts(compiled)}
    return facts, [array for result in results for array in result]


def _facts(compiled: CompiledModule) -> dict[str, Any]:
    """Where the instructions ran."""
    program = compiled.program
    counts = dict(program.instruction_counts)
    device = counts.pop(program.platforms[0], 0)
    work = dict(program.work_counts)
    device_work = work.pop(program.platforms[0], 0)
    return {
        "device_instructions": device,
        "host_instructions": sum(counts.values()),
        "device_work": device_work,
        "host_work": sum(work.values()),
        "fallbacks": [str(f) for f in program.fallbacks],
    }
