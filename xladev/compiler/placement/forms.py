"""What a device takes in another form: a broadcast of a vector as an outer product with ones.

A device that only has products, elementwise operations and reductions would have a bias sent to the
host to be spread over rows. The form is given to the device alone: on another one the instruction
stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.support import YES, Support
from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.hlo.shape import array
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import run_pass

FORMS = "forms"
"""Name of the pipeline of what is rewritten for one device."""

Form = Callable[[HloInstruction], HloInstruction | None]
"""Gives one instruction of the same operands, and constants, that computes the same."""


def outer_product(i: HloInstruction) -> HloInstruction | None:
    """A broadcast of a vector to a matrix, as a product with a vector of ones, or None.

    A product with 1 is exact, but that it makes 0 of -0.
    """
    (vector,) = i.operands
    is_small = vector.shape.rank == 1 and i.shape.rank == 2 and not i.shape.is_dynamic
    if not is_small or not i.shape.element_type.is_float:
        return None
    along: int = i["dimensions"][0]
    element_type, count = i.shape.element_type, i.shape.dims[1 - along]
    ones = Literal(array(element_type, (count,)), np.ones(count, element_type.numpy))
    spread = make_instruction(
        "constant", attrs={"literal": ones}, shape=ones.shape, name=f"{i.name}.ones"
    )
    return make_instruction(
        "dot",
        (vector, spread) if along == 0 else (spread, vector),
        {"operand_precision": ("highest", "highest")},
        shape=i.shape,
        name=i.name,
        note=i.note,
    )


_FORMS: Mapping[str, Form] = MappingProxyType({"broadcast": outer_product})


@dataclass(frozen=True, slots=True)
class DeviceForms(HloModulePass):
    """Gives what a device rejects the form in which it takes it.

    Attributes:
        target: whose answers count; None, where no device is named, changes nothing.
    """

    name = "device-forms"
    target: CompileTarget | None = None

    def run(self, module: HloModule) -> HloModule:
        """See the class.

        Raises:
            PluginError: the compiler raised.
        """
        target = self.target
        if target is None:
            return module

        def change(computation: HloComputation) -> HloComputation:
            rejected = (
                i
                for i in computation.instructions
                if i.opcode in _FORMS and not CompileTarget.supports(target, i)
            )
            formed = ((i, _formed(target, i)) for i in rejected)
            return rebuild(computation, {i: made for i, made in formed if made is not None})

        return map_computations(module, change)


def _formed(target: CompileTarget, i: HloInstruction) -> HloInstruction | None:
    """The form of an instruction that the device takes."""
    form = _FORMS[i.opcode](i)
    return form if form is not None and CompileTarget.supports(target, form) else None


@dataclass(frozen=True, slots=True)
class FormingTarget(CompileTarget):
    """A device that takes some instructions in another form."""

    @staticmethod
    def of(target: CompileTarget) -> CompileTarget:
        """The device, if it states its links, which is to ask for it; else as it is."""
        if not target.description.links:
            return target
        mine = (target.name, target.compiler, target.description, target.ordinal)
        return FormingTarget(*mine)

    def supports(self, instruction: HloInstruction) -> Support:
        """Yes also to what it takes in another form."""
        answer = CompileTarget.supports(self, instruction)
        if answer or instruction.opcode not in _FORMS:
            return answer
        return YES if _formed(self, instruction) is not None else answer

    def formed(self, module: HloModule) -> HloModule:
        """What the device is given in place of a module all of whose instructions it supports."""
        return run_pass(DeviceForms(self), module, FORMS)
