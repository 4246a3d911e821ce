"""Which arguments a program takes for its results: those that the module says and has a use for."""

from __future__ import annotations

from collections import Counter

from xladev.hlo.ir import HloModule
from xladev.hlo.physical import physical_nbytes


def donors(module: HloModule) -> tuple[int, ...]:
    """Numbers of the arguments whose memory results may take; a caller's arrays of them are gone.

    Those that results alias, and of the module's other donors those for which there is a result of
    as many bytes that no argument has been found for. XLA's donors are matched to results so too;
    what is of no use stays the caller's.

    Args:
        module: as one device runs it.
    """
    header = module.header
    aliased = {(a.parameter, a.parameter_index) for a in header.aliases}
    sizes = {
        (number, index): physical_nbytes(shape)
        for number, parameter in enumerate(module.entry.parameters)
        for index, shape in parameter.shape.leaves()
    }
    free = Counter(physical_nbytes(shape) for _, shape in module.entry.root.shape.leaves())
    free.subtract(sizes[leaf] for leaf in aliased if leaf in sizes)
    found: list[int] = []
    for at, (leaf, nbytes) in enumerate(sizes.items()):
        if leaf in aliased:
            found.append(at)
        elif leaf in header.buffer_donors and free[nbytes] > 0:
            free[nbytes] -= 1
            found.append(at)
    return tuple(found)
