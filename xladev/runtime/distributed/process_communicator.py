"""Collectives of devices of several processes.

The devices of one process meet first; the thread that comes last exchanges with the other
processes what they have to give together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xladev.errors import ExecutionError, XladevError
from xladev.hlo.physical import pack, physical_nbytes, unpack
from xladev.hlo.shape import Shape
from xladev.runtime.collectives.collective_table import (
    CollectiveCall,
    check_rank,
    checked_result_shape,
    rank_results,
    reducer,
)
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.collectives.rendezvous import Rendezvous
from xladev.runtime.communicator import HostArray, Participant
from xladev.runtime.distributed.job import Place, Spread, timeout_from_environment
from xladev.runtime.distributed.nested_data import decode, encode
from xladev.runtime.distributed.transport import Exchange
from xladev.runtime.memory import DeviceMemory

Own = list[HostArray]
"""The operands of this process's ranks."""


class ProcessCommunicator(HostCommunicator):
    """See `Communicator`.

    Args:
        spread: of the program.
        group: the participants that are its ranks, some of them in other processes.
    """

    def __init__(self, spread: Spread, group: Sequence[int]) -> None:
        self._spread = spread
        self._size = len(group)
        homes = [spread.places[i][0] for i in group]
        processes = sorted(set(homes))
        self._ranks = [[r for r, home in enumerate(homes) if home == p] for p in processes]
        self._place = processes.index(spread.job.index)
        self._own = self._ranks[self._place]
        self._home = {r: at for at, ranks in enumerate(self._ranks) for r in ranks}
        self._rendezvous = Rendezvous(len(self._own), timeout_from_environment())
        key = spread.key + repr(tuple(group)).encode()
        self._group = tuple(group)
        self._channel = spread.job.transport.channel(key, processes)

    @property
    def spread(self) -> Spread:
        """Of the program."""
        return self._spread

    @property
    def places(self) -> tuple[Place, ...]:
        """Of each rank: its process, and the number of its device there."""
        return tuple(self._spread.places[i] for i in self._group)

    @property
    def own(self) -> Sequence[int]:
        """The ranks of this process, in the order of its devices."""
        return self._own

    def meet_here(self, who: Participant, value: Any, combine: Callable[[list[Any]], Any]) -> Any:
        """Meets the other ranks of this process.

        Args:
            who: calls.
            value: what it brings.
            combine: called by the last one, with what all bring, in the order of `own`; gives what
                each receives.
        """
        check_rank(who.rank, self._size)
        return self._together(who, value, combine)

    def abort(self, run_id: int, error: XladevError) -> None:
        """Makes all calls of run ``run_id`` fail, here and in the other processes."""
        self._rendezvous.abort(run_id, error)

    def run(
        self, who: Participant, operand: DeviceMemory, result: DeviceMemory, call: CollectiveCall
    ) -> None:
        """See `OneCallCommunicator.run`."""
        shape = checked_result_shape(call, self._size, who.name)
        exchange = self._exchange(who, repr(call.agreement))

        def combine(brought: list[Any]) -> Sequence[HostArray | None]:
            _check_agreement(call.agreement, brought, who.name)
            return self._outward(exchange, call, [array for _, array in brought])

        mine = self._together(who, (call.agreement, _read(who, operand, call.shape)), combine)
        if mine is not None:
            _write(who, result, mine, shape)

    def _exchange(self, who: Participant, agreement: str) -> Exchange:
        check_rank(who.rank, self._size)
        return Exchange(self._spread.run(who.run_id), who.name, agreement.encode())

    def _together(self, who: Participant, value: Any, combine: Callable[[list[Any]], Any]) -> Any:
        at = self._own.index(who.rank)
        return self._rendezvous.exchange(who.run_id, who.name, at, value, combine)

    def _meet(self, who: Participant, value: Any, combine: Callable[[list[Any]], Any]) -> Any:
        """What has no way of its own: every process is told everything."""
        exchange = self._exchange(who, "everything")

        def outward(brought: list[Any]) -> list[Any]:
            rows = self._channel.all_gather(exchange, encode(brought))
            values: list[Any] = [None] * self._size
            for ranks, row in zip(self._ranks, rows, strict=True):
                for rank, item in zip(ranks, decode(row), strict=True):
                    values[rank] = item
            shares = combine(values)
            return [shares[rank] for rank in self._own]

        return self._together(who, value, outward)

    # By collective

    def _outward(
        self, exchange: Exchange, call: CollectiveCall, own: Own
    ) -> Sequence[HostArray | None]:
        way = _WAYS.get(call.opcode, ProcessCommunicator._of_all)
        return way(self, exchange, call, own)

    def _of_all(
        self, exchange: Exchange, call: CollectiveCall, own: Own
    ) -> Sequence[HostArray | None]:
        """Every process is told all operands."""
        rows = self._channel.all_gather(exchange, _joined(own))
        arrays = self._arrays(dict(enumerate(rows)), own[0])
        results = rank_results(call, [arrays[r] for r in range(self._size)])
        return [results[rank] for rank in self._own]

    def _reduced(
        self, exchange: Exchange, call: CollectiveCall, own: Own
    ) -> Sequence[HostArray | None]:
        """Each process reduces what its devices bring, and the processes what that gives."""
        combine = _ufunc(call.reduction, own[0])
        if combine is None:
            return self._of_all(exchange, call, own)
        total = np.asarray(reducer(call.reduction)(own), order="C")
        if len(own) == 1:
            total = total.copy()  # the operand stays as it is
        with np.errstate(all="ignore"):
            self._channel.all_reduce(exchange, total.reshape(-1), combine)
        if call.opcode == "all-reduce":
            return [total] * len(own)
        if call.opcode == "collective-reduce":
            return [total if rank == call.root else None for rank in self._own]
        parts = np.split(total, self._size, call.dimensions[0])
        return [parts[rank] for rank in self._own]

    def _broadcast(
        self, exchange: Exchange, call: CollectiveCall, own: Own
    ) -> Sequence[HostArray | None]:
        pairs = tuple((call.root, rank) for rank in range(self._size))
        return self._routed(exchange, own, dict.fromkeys(pairs, own))

    def _permuted(
        self, exchange: Exchange, call: CollectiveCall, own: Own
    ) -> Sequence[HostArray | None]:
        found = self._routed(exchange, own, dict.fromkeys(call.pairs, own))
        return [np.zeros_like(own[0]) if array is None else array for array in found]

    def _routed(
        self, exchange: Exchange, own: Own, routes: dict[tuple[int, int], Own]
    ) -> list[HostArray | None]:
        """Operands along (source, target): one message to each process that has a target."""
        at = {rank: own[i] for i, rank in enumerate(self._own)}
        pairs = sorted(routes)
        sources: dict[int, list[int]] = {}  # what each process sends here
        sent: dict[int, list[int]] = {}
        for source, target in pairs:
            here, there = self._home[source], self._home[target]
            if here == there:
                continue
            table, other = (sent, there) if here == self._place else (sources, here)
            row = table.setdefault(other, []) if self._place in (here, there) else []
            if source not in row:
                row.append(source)
        data = {p: _joined([at[s] for s in row]) for p, row in sent.items()}
        for place, blob in self._channel.exchange(exchange, data, sources.keys()).items():
            at |= dict(zip(sources[place], _split(blob, own[0], len(sources[place])), strict=True))
        wanted = {target: source for source, target in pairs}
        return [at[wanted[r]] if r in wanted else None for r in self._own]

    def _exchanged(
        self, exchange: Exchange, call: CollectiveCall, own: Own
    ) -> Sequence[HostArray | None]:
        """All-to-all: each process is sent the pieces that are for its devices."""
        split, concat = call.dimensions
        pieces = [np.split(array, self._size, split) for array in own]
        others = [p for p in range(len(self._ranks)) if p != self._place]
        sent = {p: _joined([row[r] for row in pieces for r in self._ranks[p]]) for p in others}
        arrived = self._channel.exchange(exchange, sent, others)
        given: dict[tuple[int, int], HostArray] = {
            (s, r): pieces[i][r] for i, s in enumerate(self._own) for r in self._own
        }
        for place, blob in arrived.items():
            keys = [(s, r) for s in self._ranks[place] for r in self._own]
            given |= dict(zip(keys, _split(blob, pieces[0][0], len(keys)), strict=True))
        every = range(self._size)
        return [np.concatenate([given[s, r] for s in every], concat) for r in self._own]

    def _arrays(self, rows: dict[int, Any], like: HostArray) -> dict[int, HostArray]:
        return {
            rank: array
            for place, row in rows.items()
            for rank, array in zip(
                self._ranks[place], _split(row, like, len(self._ranks[place])), strict=True
            )
        }


_WAYS: dict[str, Callable[..., Sequence[HostArray | None]]] = {
    "all-reduce": ProcessCommunicator._reduced,
    "reduce-scatter": ProcessCommunicator._reduced,
    "collective-reduce": ProcessCommunicator._reduced,
    "all-to-all": ProcessCommunicator._exchanged,
    "collective-permute": ProcessCommunicator._permuted,
    "collective-broadcast": ProcessCommunicator._broadcast,
}

_UFUNCS = {
    "add": (np.add, np.add),
    "multiply": (np.multiply, np.multiply),
    "minimum": (np.minimum, np.minimum),
    "maximum": (np.maximum, np.maximum),
    "and": (np.bitwise_and, np.logical_and),
    "or": (np.bitwise_or, np.logical_or),
    "xor": (np.bitwise_xor, np.logical_xor),
}


def _ufunc(reduction: object, array: HostArray) -> np.ufunc | None:
    """What combines two arrays in place; None for a function of the program's."""
    if not isinstance(reduction, str):
        return None
    return _UFUNCS[reduction][array.dtype == np.bool_]


def _check_agreement(agreement: tuple[Any, ...], brought: list[Any], name: str) -> None:
    for its, _ in brought:
        if its != agreement:
            raise ExecutionError(
                "ranks disagree on a collective",
                where=name,
                why=f"one calls {' '.join(map(str, agreement))}, another {' '.join(map(str, its))}",
            )


def _joined(arrays: Sequence[HostArray]) -> memoryview:
    flat = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in arrays]
    return (flat[0] if len(flat) == 1 else np.concatenate(flat)).data


def _split(data: Any, like: HostArray, count: int) -> list[HostArray]:
    """So many arrays of the shape of one, from their bytes."""
    flat = np.frombuffer(data, np.uint8).reshape(count, -1)
    return [row.view(like.dtype).reshape(like.shape) for row in flat]


def _read(who: Participant, memory: DeviceMemory, shape: Shape) -> HostArray:
    data = np.empty(physical_nbytes(shape), np.uint8)
    who.stream.copy(data, memory.slice(0, data.nbytes))
    who.stream.synchronize()
    return unpack(data, shape)


def _write(who: Participant, memory: DeviceMemory, array: HostArray, shape: Shape) -> None:
    data = pack(array, shape)
    who.stream.copy(memory.slice(0, data.nbytes), data)
    who.stream.synchronize()
