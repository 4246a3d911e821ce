"""What a program that is lowered and not yet compiled will cost."""

from __future__ import annotations

from xladev.hlo.proto import read_module
from xladev.hlo.work import total_cost


def lowered_costs(proto: bytes) -> dict[str, float]:
    """Costs of a serialized HloModuleProto, by the names that XLA gives them.

    Returns:
        ``flops``, of which ``transcendentals`` are functions such as exp, one for each element;
        and ``bytes accessed``, which every instruction reads and writes as if nothing were fused.
    """
    cost = total_cost(read_module(proto).entry.instructions)
    return {
        "flops": float(cost.flops + cost.transcendentals),
        "transcendentals": float(cost.transcendentals),
        "bytes accessed": float(cost.bytes_accessed),
    }
