"""The error tree: every error says what went wrong, where, why, and what to do next.

Each class carries a stable ``code`` that scripts and reports may rely on; messages may change,
codes do not. A class also knows the rule and the advice that hold for all its errors, which are
told where an error has none of its own.
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, delete, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what changes the direction of writing
    "\u2028\u2029\ud800-\udfff]"  # other ends of lines, halves of characters
)


def printable(text: str) -> str:
    """Text in which nothing can drive a terminal, turn its order round, or fail to be encoded.

    Names in programs come from strangers: each control character and each control of the direction
    of writing becomes its escape (``\\x1b``, ``\\u202e``). Tabs and newlines stay. Every writer of
    text for people calls this where the text leaves; programs keep their names as they are.
    """
    return text if text.isprintable() else _UNPRINTABLE.sub(_escaped, text)


def printable_name(name: str) -> str:
    """A name in one line, `printable`: its tabs and newlines become escapes too."""
    return name if name.isprintable() else printable(name.replace("\n", "\\n").replace("\t", "\\t"))


def counted(count: int, what: str) -> str:
    """A number with its noun in the right form: ``1 kernel``, ``2 kernels``, ``1,200 passes``.

    Args:
        count: how many.
        what: the noun for one, whose plural ends in ``s``, or in ``es`` after an ``s``.
    """
    ending = "es" if what.endswith("s") else "s"
    return f"{count:,} {what}{'' if count == 1 else ending}"


def set_in(text: str, least: int) -> str:
    """Text whose later lines begin with ``least`` spaces or more.

    A name in the text may hold a newline, which then begins no line of its own. If one line has
    fewer spaces, all later ones get so many more.
    """
    first, *rest = text.split("\n")
    margin = " " * least
    if all(line.startswith(margin) or not line for line in rest):
        return text
    return "\n".join((first, *(margin + line for line in rest)))


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


def one_line(message: str) -> str:
    """A message in one line, for tables and lists.

    Args:
        message: of an XladevError, of which what failed, where and why are kept; or a traceback,
            of which the last line is.
    """
    lines = [line for line in message.splitlines() if line.strip()] or [""]
    if lines[0].startswith("Traceback ("):
        return lines[-1].strip()
    kept = (line.strip() for line in lines[1:] if line.startswith(("  where: ", "  why: ")))
    return "; ".join((lines[0], *kept))


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
        lines = [f"[{self.code}] {set_in(self.what, 4)}"]
        parts = (("where", self.where), ("why", self.why), ("next", self.hint))
        lines.extend(f"  {label}: {set_in(text, 4)}" for label, text in parts if text)
        return printable("\n".join(lines))

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
    advice = "mend the plugin as the contract says; XLADEV_PLUGINS=-NAME leaves a plugin out"


class DeviceError(XladevError):
    """A device that is unknown, absent or failing."""

    code = "DEVICE"
    rule = "a device and its driver do what the plugin asks of them"
    advice = "`xladev doctor` shows whether the device can be opened and works"


class AbsentDeviceError(DeviceError):
    """A name, or a number, of a device that is not there, or that this process may not use."""

    code = "NO_DEVICE"
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
    rule = "all buffers of a program are in the device's memory at once"
    advice = "drop or donate arrays, or use a smaller batch"


class ExecutionError(XladevError):
    """A launch failed; raised where its values are read or waited for."""

    code = "EXECUTE"
    rule = "a launch failed, and every value computed from it"
    advice = "run on platform `interpreter` to see whether program or device is at fault"


class UserFunctionError(ExecutionError):
    """A Python function that a program calls raised something, or gave what does not fit.

    Such are callbacks of JAX, and the meanings of custom calls that were registered.
    """

    code = "USER_FUNCTION"
    rule = "a program is as good as the functions that it calls"
    advice = "correct that function; program and device did what they were told"


class InterruptionError(ExecutionError):
    """Ctrl-C ended a loop that ran in another thread than the main one."""

    code = "INTERRUPTED"
    rule = "Ctrl-C ends compiled loops, in whichever thread they run"
    advice = "run the program again; the device is usable, what was donated to the program is gone"


class ProcessError(ExecutionError):
    """Another process of a job is missing, ended, failed, disagrees, or is none of the job's."""

    code = "PROCESS"
    rule = "a program of several processes runs only while all of them do the same"
    advice = "look at the messages of the process that is named, and start the job again"


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
    """A file of another format, or one of xladev's own that is damaged or of another version."""

    code = "FORMAT"
    rule = "a file is read only if it is whole and of this version"
    advice = "compile the program again"
