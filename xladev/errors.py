"""The error tree: every error says what went wrong, where, why, and what to do next.

Each class carries a stable ``code`` that scripts and reports may rely on; messages may change,
codes do not.
"""

from __future__ import annotations


class XladevError(Exception):
    """Root of all errors raised on purpose by xladev.

    Args:
        what: one sentence saying what failed.
        where: the instruction, line, byte offset, plugin or file concerned.
        why: the rule that was broken, with its constraint id where there is one.
        hint: what to do next.
        code: overrides the class's stable code.
    """

    code: str = "XLADEV"

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.what}"]
        parts = (("where", self.where), ("why", self.why), ("next", self.hint))
        lines.extend(f"  {label}: {text}" for label, text in parts if text)
        return "\n".join(lines)

    def at(self, where: str) -> XladevError:
        """Returns this error with its place filled in, if it had none."""
        if self.where is None:
            self.where = where
        return self


class ParseError(XladevError):
    """Malformed HLO text."""

    code = "HLO_TEXT"


class ProtoError(XladevError):
    """Malformed serialized HloModuleProto."""

    code = "HLO_PROTO"


class VerifyError(XladevError):
    """A module that breaks a rule of HLO."""

    code = "HLO_VERIFY"


class ShapeError(VerifyError):
    """Operand shapes, a result shape or an attribute that an opcode does not allow."""

    code = "HLO_SHAPE"


class LiteralError(XladevError):
    """A constant whose value and shape disagree, or whose value was elided."""

    code = "HLO_LITERAL"


class EvaluationError(XladevError):
    """The evaluator cannot give this instruction a value."""

    code = "HLO_EVALUATE"


class PassError(XladevError):
    """A pass failed, or broke an invariant that the pipeline checks."""

    code = "PASS"


class CompileError(XladevError):
    """A program or kernel that could not be compiled."""

    code = "COMPILE"


class UnsupportedError(CompileError):
    """A backend was asked for what it declares not to support."""

    code = "UNSUPPORTED"


class OptionError(XladevError):
    """An unknown or ill-typed option."""

    code = "OPTION"


class ArgumentError(XladevError):
    """Arguments of wrong number, shape, dtype or state."""

    code = "ARGUMENT"


class PluginError(XladevError):
    """A plugin that could not be loaded or broke its contract."""

    code = "PLUGIN"


class DeviceError(XladevError):
    """A device that is unknown, absent or failing."""

    code = "DEVICE"


class DeviceLostError(DeviceError):
    """The device stopped; its executor refuses work until reset."""

    code = "DEVICE_LOST"


class OutOfMemoryError(DeviceError):
    """An allocation that does not fit; names the live buffers."""

    code = "OUT_OF_MEMORY"


class ExecutionError(XladevError):
    """A launch failed; raised where its values are read or waited for."""

    code = "EXECUTE"


class FormatError(XladevError):
    """A file of xladev's own formats that is damaged or of another version."""

    code = "FORMAT"


class StoreError(XladevError):
    """The on-disk cache cannot be used."""

    code = "STORE"
