"""The error tree: every error says what went wrong, where, why, and what to do next.

Each class carries a stable ``code`` that scripts and reports may rely on; messages may change,
codes do not. A class also knows the rule and the advice that hold for all its errors, which are
told where an error has none of its own.
"""

from __future__ import annotations


class XladevError(Exception):
    """Root of all errors raised on purpose by xladev.

    Args:
        what: one sentence saying what failed.
        where: the instruction, line, byte offset, plugin or file concerned.
        why: the rule that was broken, with its constraint id where there is one; without it, the
            class's ``rule``.
        hint: what to do next; without it, the class's ``advice``.
        code: overrides the class's stable code.
    """

    code: str = "XLADEV"
    rule: str | None = None
    advice: str | None = None

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
        self.why = why or self.rule
        self.hint = hint or self.advice
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
    rule = "HLO text follows the grammar of XLA's own parser"
    advice = "correct the text there, or export the program as a proto"


class ProtoError(XladevError):
    """Malformed serialized HloModuleProto."""

    code = "HLO_PROTO"
    rule = "a serialized HloModuleProto has known fields, whole, with values in their range"
    advice = "export the program again; the bytes are no HloModuleProto, or were cut or changed"


class VerifyError(XladevError):
    """A module that breaks a rule of HLO."""

    code = "HLO_VERIFY"
    rule = "a module keeps the rules of HLO"
    advice = "correct the program there; `xladev convert` prints a proto as text"


class ShapeError(VerifyError):
    """Operand shapes, a result shape or an attribute that an opcode does not allow."""

    code = "HLO_SHAPE"


class LiteralError(XladevError):
    """A constant whose value and shape disagree, or whose value was elided."""

    code = "HLO_LITERAL"
    rule = "a constant has one value for each element of its shape"
    advice = "export the program as a proto: text may leave values out"


class EvaluationError(XladevError):
    """The evaluator cannot give this instruction a value."""

    code = "HLO_EVALUATE"
    rule = "the instruction has no value for these operands on this device"
    advice = "change the program there; docs/reference/opset.md tells what each opcode does"


class PassError(XladevError):
    """A pass failed, or broke an invariant that the pipeline checks."""

    code = "PASS"
    rule = "a pass keeps the meaning of a module and the rules of HLO"
    advice = (
        "leave the pass out (`xladev opt --passes`) and report it with its dump (XLADEV_DUMP_TO)"
    )


class CompileError(XladevError):
    """A program or kernel that could not be compiled."""

    code = "COMPILE"
    rule = "the compiler has no code for this program"
    advice = "look at the program step by step: XLADEV_DUMP_TO=FOLDER"


class UnsupportedError(CompileError):
    """A backend was asked for what it declares not to support."""

    code = "UNSUPPORTED"
    rule = "the backend declares not to support it"
    advice = "`xladev doctor` tells what is supported and why not"


class OptionError(XladevError):
    """An unknown or ill-typed option."""

    code = "OPTION"
    rule = "options have fixed names and types"
    advice = "`xladev options` lists names, types and meanings"


class UsageError(XladevError):
    """A command that was called wrongly."""

    code = "USAGE"
    rule = "a command takes what its --help says"
    advice = "`xladev COMMAND --help`"


class ArgumentError(XladevError):
    """Arguments of wrong number, shape, dtype or state."""

    code = "ARGUMENT"
    rule = "arguments are of the number, shapes and types that the program declares"
    advice = "compare them with the parameters of the program's entry computation"


class PluginError(XladevError):
    """A plugin that could not be loaded or broke its contract."""

    code = "PLUGIN"
    rule = "a plugin keeps the contract of docs/reference/contract.md"
    advice = "`xladev doctor` shows the traceback; XLADEV_PLUGINS=-NAME leaves a plugin out"


class DeviceError(XladevError):
    """A device that is unknown, absent or failing."""

    code = "DEVICE"
    rule = "devices are those that an installed platform finds"
    advice = "`xladev devices` lists what is there"


class DeviceLostError(DeviceError):
    """The device stopped; its executor refuses work until reset."""

    code = "DEVICE_LOST"
    rule = "a device that stopped takes no work until it is reset"
    advice = "reset the device, then compile or load the program again"


class OutOfMemoryError(DeviceError):
    """An allocation that does not fit; names the live buffers."""

    code = "OUT_OF_MEMORY"
    rule = "all buffers of a program lie in the device's memory at once"
    advice = "drop or donate arrays, or use a smaller batch"


class ExecutionError(XladevError):
    """A launch failed; raised where its values are read or waited for."""

    code = "EXECUTE"
    rule = "a launch failed, and every value computed from it"
    advice = "run on platform `interpreter` to see whether program or device is at fault"


class FileError(XladevError):
    """A file that cannot be read or written."""

    code = "FILE"
    rule = "the file system allows it"
    advice = "check the path"

    @staticmethod
    def of(doing: str, path: object, error: OSError) -> FileError:
        """The error for ``doing`` (such as ``cannot read``) a path.

        Args:
            doing: what failed, before the path.
            path: as the user named it.
            error: what the operating system said.
        """
        return FileError(f"{doing} {path}", where=str(path), why=error.strerror or str(error))


class FormatError(XladevError):
    """A file of xladev's own formats that is damaged or of another version."""

    code = "FORMAT"
    rule = "a file is read only if it is whole and of this version"
    advice = "compile the program again"
