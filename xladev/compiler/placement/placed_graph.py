"""A placed computation as a graph of nodes, with the transfers between devices as nodes too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xladev.compiler.partition.assignment import STRUCTURAL_OPCODES, Assignment
from xladev.compiler.partition.region_values import RegionValue, operand_sources, sources
from xladev.compiler.placement.notation import Pairs, PlacedNode, print_placed
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.shape import Shape

TRANSFER = "Transfer"
RESULT = "Result"
"""Operations that no opcode is called."""


def placed_text(module: HloModule, assignment: Assignment, names: Mapping[str, str]) -> str:
    """The computations that are placed, one after the other.

    Args:
        module: prepared.
        assignment: where its instructions run.
        names: what to call devices; those that are left out are called what they are.
    """
    texts: list[str] = []
    for computation in module.computations:
        if any(i in assignment.devices for i in computation.instructions):
            nodes = placed_graph(computation, assignment.devices, names)
            texts.append(f"# {computation.name}\n{print_placed(nodes)}")
    return "\n".join(texts)


def placed_graph(
    computation: HloComputation,
    devices: Mapping[HloInstruction, str],
    names: Mapping[str, str] | None = None,
) -> tuple[PlacedNode, ...]:
    """The nodes of a computation, operands first, the result last.

    Args:
        computation: what is shown; tuples and their parts are seen through.
        devices: where its instructions run.
        names: as in `placed_text`; the first one is where parameters and the result are.
    """
    graph = _Graph(devices, names or {})
    for i in computation.instructions:
        graph.add(i)
    graph.result(computation)
    return tuple(graph.nodes)


class _Graph:
    def __init__(self, devices: Mapping[HloInstruction, str], names: Mapping[str, str]) -> None:
        self._devices, self._names = devices, names
        self._home = next(iter(names), next(iter(devices.values()), ""))
        self._made: dict[HloInstruction, str] = {}
        self._copies: dict[tuple[RegionValue, str], str] = {}
        self.nodes: list[PlacedNode] = []

    def add(self, i: HloInstruction) -> None:
        """The node of an instruction, with the transfers that it needs."""
        if i.opcode == "parameter":
            self._append(i, self._home, ())
        elif i.opcode not in STRUCTURAL_OPCODES and i in self._devices:
            device = self._devices[i]
            values = operand_sources(i.operands)
            inputs = tuple(self._input(value, device) for value in values)
            self._append(i, device, inputs, tuple(self._before(i)))

    def result(self, computation: HloComputation) -> None:
        """The node that takes what the computation gives."""
        inputs = tuple(self._input(value, self._home) for value in sources(computation.root))
        attributes = (("device", self._name(self._home)),)
        self.nodes.append(PlacedNode(self._fresh(), RESULT, attributes, inputs))

    def _before(self, i: HloInstruction) -> Iterator[str]:
        predecessors = (p for p in i.note.control_predecessors if p in self._made)
        return (self._made[p] for p in predecessors)

    def _input(self, value: RegionValue, device: str) -> str:
        """A value on a device: itself, or a copy that is made once."""
        producer = value.producer
        if producer.opcode == "constant":
            return self._constant(value, device)
        held = self._devices.get(producer, self._home)
        part = ".".join(map(str, value.part))
        name = self._made[producer] + (f":{part}" if part else "")
        if held == device:
            return name
        if (value, device) not in self._copies:
            ends = (("source", self._name(held)), ("device", self._name(device)))
            attributes = (*_shape(value.shape), *ends)
            node = PlacedNode(self._fresh(), TRANSFER, attributes, (name,))
            self.nodes.append(node)
            self._copies[value, device] = node.name
        return self._copies[value, device]

    def _constant(self, value: RegionValue, device: str) -> str:
        """A constant, made where it is read."""
        if (value, device) not in self._copies:
            place = (("name", value.producer.name), ("device", self._name(device)))
            node = PlacedNode(self._fresh(), "constant", (*_shape(value.shape), *place))
            self.nodes.append(node)
            self._copies[value, device] = node.name
        return self._copies[value, device]

    def _append(
        self,
        i: HloInstruction,
        device: str,
        inputs: tuple[str, ...],
        controls: tuple[str, ...] = (),
    ) -> None:
        attributes = (*_shape(i.shape), ("name", i.name), ("device", self._name(device)))
        node = PlacedNode(self._fresh(), i.opcode, attributes, inputs, controls)
        self._made[i] = node.name
        self.nodes.append(node)

    def _fresh(self) -> str:
        return f"n{len(self.nodes)}"

    def _name(self, device: str) -> str:
        return self._names.get(device, device)


def _shape(shape: Shape) -> Pairs:
    """The type, and sizes as ``8x4`` where there are any."""
    if not shape.is_array:
        return (("T", shape.to_string(layout=False)),)
    found = (("T", shape.element_type.name),)
    return (*found, ("dims", "x".join(map(str, shape.dims)))) if shape.dims else found
