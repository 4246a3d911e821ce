"""Which memory of operands a program may write its results to: an update then takes no more memory.

Arrays are never written to as long as a tensor, another node or an array of NumPy can see them.
Whether one can is told by how often Python refers to a node and to its array.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Sequence

from xladev.frontends.torch.device.node import Node
from xladev.runtime.array import DeviceArray

SHOWN: weakref.WeakSet[DeviceArray] = weakref.WeakSet()
"""Arrays that another package may see through DLPack."""

LEAST_NBYTES = 1 << 18
"""Smaller arrays are not worth a call that is not the fastest."""


class _Probe:
    """Stands for a node, and for its array."""

    value: object = None


def _node_count(order: Sequence[object], at: int) -> int:
    """References to a value of an order, a local name's and the counting function's among them."""
    node = order[at]
    return sys.getrefcount(node)


def _array_count(node: Node | _Probe) -> int:
    return sys.getrefcount(node.value)


def _least_of_a_node() -> int:
    """References to a node that only a program needs, beside those of its uses.

    Counted, since a local name is not a reference in every release of Python.
    """
    order = [_Probe()]
    number = {order[0]: 0}
    return _node_count(order, number[order[0]])


def _least_of_an_array() -> int:
    """References to an array that only its node needs."""
    node = _Probe()
    node.value = object()
    return _array_count(node)


_OF_A_NODE, _OF_AN_ARRAY = _least_of_a_node(), _least_of_an_array()


def donatable(
    order: Sequence[Node], number: dict[Node, int], places: Sequence[int]
) -> tuple[int, ...]:
    """Those of some values that nobody sees but the program that is about to run.

    Args:
        order: all that the program needs.
        number: the place of each in it.
        places: of the values in question.
    """
    uses = Counter(number[each] for node in order for each in node.inputs)
    return tuple(at for at in places if _is_alone(order, at, uses[at]))


def _is_alone(order: Sequence[Node], at: int, uses: int) -> bool:
    """True if nobody refers to a value but the program; no local name may do so here either."""
    if _node_count(order, at) > _OF_A_NODE + uses or _array_count(order[at]) > _OF_AN_ARRAY:
        return False
    return order[at].value not in SHOWN


def updated(
    order: Sequence[Node], number: dict[Node, int], roots: Sequence[Node]
) -> list[tuple[int, int]]:
    """Results and the values whose new states they are, which nobody sees any more.

    Args:
        order: all that a program needs.
        number: the place of each in it.
        roots: its results.

    Returns:
        Pairs of a result's number and a value's place; a value serves once.
    """
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for result, root in enumerate(roots):
        at = number[_origin(root)]
        if at not in taken and order[at].spec is root.spec and _is_large(order[at]):
            taken.add(at)
            pairs.append((result, at))
    free = set(donatable(order, number, [at for _, at in pairs]))
    return [pair for pair in pairs if pair[1] in free]


def _is_large(node: Node) -> bool:
    return node.value is not None and node.value.nbytes >= LEAST_NBYTES


def _origin(node: Node) -> Node:
    """What was first written to, if a node is what became of it: the first operands of operands."""
    while node.inputs:
        node = node.inputs[0]
    return node
