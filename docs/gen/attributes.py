"""The reference page of attribute values: what Python gets of each kind, and what it means."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pieces.docstrings import section

from xladev.hlo.attributes import (
    ConvDims,
    OutputAlias,
    PadDim,
    ReplicaGroups,
    ResultAccuracy,
    SliceDim,
    WindowDim,
)
from xladev.hlo.opdef import AttrKind
from xladev.hlo.text import parse_module

PAGE = "reference/attributes.md"

TEMPLATE = Path(__file__).with_name("attributes.md.in")

CLASSES: tuple[type[Any], ...] = (
    WindowDim, ConvDims, SliceDim, PadDim, ReplicaGroups, OutputAlias, ResultAccuracy,
)  # fmt: skip

REDUCTION = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"


@dataclass(frozen=True, slots=True)
class Sample:
    """An attribute of a program.

    Attributes:
        name: of the attribute.
        text: its value in `program`.
        program: a module's text; the attribute is its root's.
        said: the value in words, where its `repr` says little; empty for that.
    """

    name: str
    text: str
    program: str
    said: str = ""

    def value(self) -> Any:
        """What Python gets."""
        assert self.shown in self.program, self
        return parse_module(f"HloModule m\n{self.program}").entry.root[self.name]

    @property
    def shown(self) -> str:
        """How the attribute is written: parameters and constants have it in parentheses."""
        is_positional = self.name in ("parameter_number", "literal")
        return f"({self.text})" if is_positional else f"{self.name}={self.text}"


def _main(root: str, *operands: str) -> str:
    given = "".join(f"  p{n} = {s} parameter({n})\n" for n, s in enumerate(operands))
    return f"ENTRY main {{\n{given}  ROOT y = {root}\n}}"


_CONVOLUTION = _main(
    "f32[1,4,4,2] convolution(p0, p1), window={size=3x3 stride=2x2 pad=1_1x1_1}, "
    "dim_labels=b01f_01io->b01f",
    "f32[1,8,8,3]",
    "f32[3,3,3,2]",
)
_DOT = _main(
    "f32[2,2] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "operand_precision={highest,default}",
    "f32[2,3]",
    "f32[3,2]",
)

SAMPLES: Mapping[AttrKind, Sample] = MappingProxyType(
    {
        AttrKind.INT: Sample("iota_dimension", "0", _main("s32[4] iota(), iota_dimension=0")),
        AttrKind.NUMBER: Sample(
            "parameter_number", "1", "ENTRY main { x = f32[] parameter(0)\n"
            "  ROOT y = f32[] parameter(1) }"
        ),
        AttrKind.BOOL: Sample(
            "lower", "true", _main("f32[2,2] cholesky(p0), lower=true", "f32[2,2]")
        ),
        AttrKind.FLOAT: Sample(
            "epsilon", "0.5", _main(
                "f32[2,3] batch-norm-inference(p0, p1, p2, p3, p4), epsilon=0.5, feature_index=1",
                "f32[2,3]", *4 * ["f32[3]"],
            )
        ),
        AttrKind.STRING: Sample(
            "custom_call_target", '"name"', _main('f32[] custom-call(), custom_call_target="name"')
        ),
        AttrKind.WORD: Sample(
            "direction", "LT", _main("pred[] compare(p0, p1), direction=LT", "f32[]", "f32[]")
        ),
        AttrKind.WORDS: Sample("operand_precision", "{highest,default}", _DOT),
        AttrKind.INTS: Sample(
            "dimensions", "{1,0}", _main("f32[3,2] transpose(p0), dimensions={1,0}", "f32[2,3]")
        ),
        AttrKind.COMPUTATION: Sample(
            "to_apply", "add", REDUCTION + _main(
                "f32[] reduce(p0, p1), dimensions={0}, to_apply=add", "f32[4]", "f32[]"
            ), "an `HloComputation`",
        ),
        AttrKind.WINDOW: Sample("window", "{size=3x3 stride=2x2 pad=1_1x1_1}", _CONVOLUTION),
        AttrKind.CONV_DIMS: Sample("dim_labels", "b01f_01io->b01f", _CONVOLUTION),
        AttrKind.SLICE: Sample(
            "slice", "{[0:4:2], [1:3]}", _main("f32[2,2] slice(p0), slice={[0:4:2], [1:3]}",
                                               "f32[4,4]")
        ),
        AttrKind.PADDING: Sample(
            "padding", "0_1_2x0_0", _main("f32[5,2] pad(p0, p1), padding=0_1_2x0_0", "f32[2,2]",
                                          "f32[]")
        ),
        AttrKind.LITERAL: Sample(
            "literal", "2", "ENTRY main { ROOT y = f32[] constant(2) }",
            "a `Literal` of `xladev.hlo.literal`: `.array` is a NumPy array, `.shape` its shape",
        ),
        AttrKind.GROUPS: Sample(
            "replica_groups", "{{0,1}}", REDUCTION + _main(
                "f32[4] all-reduce(p0), replica_groups={{0,1}}, to_apply=add", "f32[4]"
            ),
        ),
        AttrKind.PAIRS: Sample(
            "source_target_pairs", "{{0,1},{1,0}}", _main(
                "f32[4] collective-permute(p0), source_target_pairs={{0,1},{1,0}}", "f32[4]"
            ),
        ),
        AttrKind.ACCURACY: Sample(
            "result_accuracy", "{mode=highest}",
            _main("f32[] exponential(p0), result_accuracy={mode=highest}", "f32[]"),
        ),
    }
)  # fmt: skip
"""A program for each kind that kernels meet."""

OTHERS: Mapping[AttrKind, str] = MappingProxyType(
    {
        AttrKind.BOOLS: "a tuple of `bool`",
        AttrKind.INT_LISTS: "a tuple of tuples of `int`",
        AttrKind.COMPUTATIONS: "a tuple of `HloComputation`",
        AttrKind.SHAPE: "a `Shape`",
        AttrKind.SHAPES: "a tuple of `Shape`",
        AttrKind.ALIASING: "a tuple of `OutputAlias`",
        AttrKind.SHARDINGS: "a pair of `Sharding`, of entry and exit",
        AttrKind.SPARSITY: "its text",
    }
)


def render() -> str:
    """The page.

    Raises:
        LookupError: a kind without a row, or a row of none.
    """
    if set(AttrKind) != {*SAMPLES, *OTHERS}:
        raise LookupError("kinds of attributes and rows differ")
    text = TEMPLATE.read_text("utf-8")
    text = text.replace("@@kinds@@", "\n".join(_rows()))
    return text.replace("@@classes@@", "\n".join(_classes()).rstrip())


def _rows() -> Iterator[str]:
    for kind in AttrKind:
        sample = SAMPLES.get(kind)
        if sample is None:
            yield f"| {kind.value} | | {OTHERS[kind]} |"
        else:
            value = sample.value()
            yield f"| {kind.value} | `{sample.shown}` | {sample.said or f'`{value!r}`'} |"


def _classes() -> Iterator[str]:
    for cls in CLASSES:
        yield section(cls.__name__, cls, "###", signature=False)
