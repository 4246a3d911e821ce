"""The steps of a Program: what runs where, on which slots; data only, with no device behind it.

Slots are numbers within one `Procedure`; executables, constants and procedures are numbers within
the `Program`.
"""

from __future__ import annotations

from dataclasses import dataclass

Slots = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunExecutable:
    """Launches one region on its platform.

    Attributes:
        executable: which one; its signature says platform, aliasing and scratch.
        arguments: one slot per `Signature.argument_shapes`.
        results: one slot per `Signature.result_shapes`.
        needs: for each result, the places among the arguments of those that it is computed from;
            empty if each is computed from all of them, as far as is known.
    """

    executable: int
    arguments: Slots
    results: Slots
    needs: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Evaluates a region on the host with the SDK's evaluator, where no platform can run it.

    Attributes:
        executable: a serialized HloModule with the signature of its arrays.
        arguments: one slot per `Signature.argument_shapes`, on any platform.
        results: one slot per `Signature.result_shapes`, on any platform.
    """

    executable: int
    arguments: Slots
    results: Slots


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copies a slot to another platform, to another layout, or both."""

    source: int
    result: int


@dataclass(frozen=True, slots=True)
class Constant:
    """Makes a constant available; it is copied to the platform once, when the program is loaded."""

    constant: int
    result: int


@dataclass(frozen=True, slots=True)
class DeviceNumber:
    """The number of the replica or partition that runs, as u32[].

    Attributes:
        kind: ``replica`` or ``partition``.
        result: slot that gets it.
    """

    kind: str
    result: int


@dataclass(frozen=True, slots=True)
class RandomState:
    """Reads a counter that outlives runs, and advances it, as u64[2]: the count, then the seed.

    Attributes:
        seed: what tells programs with the same counts apart.
        delta: how far the counter advances.
        result: slot that gets the count before it did.
    """

    seed: int
    delta: int
    result: int


@dataclass(frozen=True, slots=True)
class While:
    """Runs a procedure as long as another gives true.

    Attributes:
        condition: takes the loop's state, gives pred[].
        body: takes the loop's state, gives the next.
        arguments: slots of the first state.
        results: slots of the last state.
    """

    condition: int
    body: int
    arguments: Slots
    results: Slots


@dataclass(frozen=True, slots=True)
class Conditional:
    """Runs one of several procedures.

    Attributes:
        index: slot of pred[] (true is branch 0) or s32[] (out of range is the last branch).
        branches: the procedures.
        arguments: slots for each branch.
        results: slots of the result of whichever ran.
    """

    index: int
    branches: tuple[int, ...]
    arguments: tuple[Slots, ...]
    results: Slots


@dataclass(frozen=True, slots=True)
class Call:
    """Runs a procedure."""

    procedure: int
    arguments: Slots
    results: Slots


@dataclass(frozen=True, slots=True)
class Collective:
    """Exchanges data with other devices of the execution through the SDK's communicators.

    Attributes:
        opcode: the opcode without ``-start``, such as ``all-reduce``.
        name: name of the instruction; the same on all devices.
        groups: device numbers (replica * partitions + partition), one row per group.
        arguments: slots of the operands.
        results: slots of the results.
        dimensions: dimensions the opcode works on: none, one, or (split, concatenate).
        reduction: ``add``, ``maximum``, ... ; empty if ``reducer`` is used or nothing is reduced.
        reducer: an executable for the evaluator that combines two arrays; None if not needed.
        pairs: (source, target) ranks within each group of a collective-permute.
        slices: sizes of the slices of a collective-permute that works in place; arguments are then
            input, output, and the starts of each slice in both.
        dynamic_root: True if the last argument holds the rank of the root of each other one.
    """

    opcode: str
    name: str
    groups: tuple[tuple[int, ...], ...]
    arguments: Slots
    results: Slots
    dimensions: tuple[int, ...] = ()
    reduction: str = ""
    reducer: int | None = None
    pairs: tuple[tuple[int, int], ...] = ()
    dynamic_root: bool = False
    slices: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class CollectiveStart(Collective):
    """Begins a collective beside what comes next; its results are filled by its `CollectiveDone`.

    All else is as for `Collective`. Without a stream of its own the collective runs here.
    """


@dataclass(frozen=True, slots=True)
class CollectiveDone:
    """Ends a collective of the same procedure: what comes next waits for it.

    Attributes:
        name: of the `CollectiveStart`.
        arguments: its arguments, which nobody may have written or freed meanwhile.
        results: its results, which are there from here on.
    """

    name: str
    arguments: Slots
    results: Slots


Thunk = (
    RunExecutable
    | Evaluate
    | Transfer
    | Constant
    | DeviceNumber
    | RandomState
    | While
    | Conditional
    | Call
    | Collective
    | CollectiveDone
)

THUNK_KINDS: dict[str, type[Thunk]] = {
    "run": RunExecutable,
    "evaluate": Evaluate,
    "transfer": Transfer,
    "constant": Constant,
    "device-number": DeviceNumber,
    "random-state": RandomState,
    "while": While,
    "conditional": Conditional,
    "call": Call,
    "collective": Collective,
    "collective-start": CollectiveStart,
    "collective-done": CollectiveDone,
}
"""Thunk classes by the name that files and print-outs use."""


def reads(thunk: Thunk) -> Slots:
    """Slots that a thunk reads."""
    match thunk:
        case Transfer():
            return (thunk.source,)
        case Constant() | DeviceNumber() | RandomState():
            return ()
        case Conditional():
            return (thunk.index, *(s for row in thunk.arguments for s in row))
        case _:
            return thunk.arguments


def writes(thunk: Thunk) -> Slots:
    """Slots that a thunk fills."""
    match thunk:
        case Transfer() | Constant() | DeviceNumber() | RandomState():
            return (thunk.result,)
        case CollectiveStart():
            return ()
        case _:
            return thunk.results
