"""Evaluates a program on several devices at once: one thread each, meeting at collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from xladev.errors import ArgumentError
from xladev.hlo.custom_calls.manual import (
    has_manual_region,
    manual_device_count,
    module_meshes,
)
from xladev.hlo.devices import (
    LINK,
    NOT_MET,
    DeviceLink,
    EvaluatorRendezvous,
    LogicalDevice,
    Topology,
)
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value

MAX_DEVICES = 256
"""Most devices, each a thread, that one evaluation may have."""


_EVALUATOR = HloEvaluator()


def topology_of(module: HloModule) -> Topology:
    """The devices a module asks for: replicas and partitions, those of manual regions included."""
    header = module.header
    partitions = max(header.num_partitions, manual_device_count(module))
    return Topology(header.replica_count, partitions)


def evaluate(module: HloModule, *arguments: Value) -> Value:
    """Value of a module whose arguments are whole arrays, on as many devices as it needs.

    A module with manual regions (`xla.sdy.GlobalToLocalShape`) is evaluated on the devices of its
    mesh, all of which are given the same whole arguments; anything else on one device.

    Returns:
        The result of the first device.
    """
    if not has_manual_region(module):
        return HloEvaluator().run(module, *arguments)
    count = len(topology_of(module).devices)
    return evaluate_replicated(module, [arguments] * count)[0]


def evaluate_replicated(
    module: HloModule,
    arguments: Sequence[Sequence[Value]],
    *,
    topology: Topology | None = None,
    seed: int = 0,
    evaluator: HloEvaluator = _EVALUATOR,
) -> tuple[Value, ...]:
    """Values of a module on every device.

    Args:
        module: what all devices run.
        arguments: one list of arguments per device, in the order of flattened ids
            (``replica * num_partitions + partition``).
        topology: the devices; those the module asks for unless given.
        seed: start of the hidden state of ``rng``.
        evaluator: what evaluates; each device has a copy that knows its number.

    Returns:
        One value per device, in the same order.

    Raises:
        ArgumentError: as many argument lists as devices are needed.
        EvaluationError: a device failed, or did not come to a collective that others wait at.
    """
    topology = topology or topology_of(module)
    devices = topology.devices
    if len(arguments) != len(devices):
        raise ArgumentError(
            f"{len(arguments)} argument lists for {len(devices)} devices",
            hint="give one list of arguments per replica and partition",
        )
    if len(devices) > MAX_DEVICES:
        raise ArgumentError(f"{len(devices)} devices; at most {MAX_DEVICES} can be evaluated")
    link = DeviceLink(topology, EvaluatorRendezvous(), devices[0], module_meshes(module))

    def run(device: LogicalDevice, values: Sequence[Value]) -> Value:
        own = replace(link, device=device, _counts={})
        numbers = {"replica": device.replica, "partition": device.partition}
        return replace(evaluator, seed=seed, shared={LINK: own}, **numbers).run(module, *values)

    return _run_all(run, link.rendezvous, devices, arguments)


def _run_all(
    run: Callable[[LogicalDevice, Sequence[Value]], Value],
    rendezvous: EvaluatorRendezvous,
    devices: Sequence[LogicalDevice],
    arguments: Sequence[Sequence[Value]],
) -> tuple[Value, ...]:
    """Runs every device in a thread; raises the first error that is not the echo of another."""

    def run_one(device: LogicalDevice, values: Sequence[Value]) -> Value:
        try:
            return run(device, values)
        finally:
            rendezvous.end(device)

    with ThreadPoolExecutor(len(devices)) as pool:
        futures = [pool.submit(run_one, d, a) for d, a in zip(devices, arguments, strict=True)]
        wait(futures)
    _raise_first(futures)
    return tuple(future.result() for future in futures)


def _raise_first(futures: Sequence[Future[Value]]) -> None:
    errors = [error for error in (future.exception() for future in futures) if error is not None]
    causes = [error for error in errors if getattr(error, "code", "") != NOT_MET]
    if errors:
        raise (causes or errors)[0]
