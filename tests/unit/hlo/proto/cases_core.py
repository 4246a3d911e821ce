"""Cases of elementwise and data movement opcodes."""

from tests.unit.hlo.proto.case import ADD, Case, F
from xladev.hlo.attributes import PadDim, ResultAccuracy, SliceDim


def _same(opcodes: str, shape: str, arity: int, result: str = "") -> list[Case]:
    """Cases of opcodes without attributes, on operands of one shape."""
    operands = ", ".join(f"p{i}" for i in range(arity))
    return [
        Case(op, (shape,) * arity, f"{result or shape} {op}({operands})") for op in opcodes.split()
    ]


FUNCTIONS = (
    "acos acosh asin asinh atanh cbrt cosine cosh erf exponential exp2 exponential-minus-one log "
    "log2 log-plus-one logistic rsqrt sine sinh sqrt tan tanh"
)
ELEMENTWISE = [
    *_same(FUNCTIONS, F, 1),
    *_same("abs ceil floor negate round-nearest-afz round-nearest-even sign copy", F, 1),
    *_same("is-finite", F, 1, "pred[4,8]"),
    *_same("not count-leading-zeros popcnt", "s32[4]", 1),
    *_same("real imag", "c64[4]", 1, "f32[4]"),
    *_same("complex", "f32[4]", 2, "c64[4]"),
    *_same("add atan2 divide maximum minimum multiply power remainder subtract", F, 2),
    *_same("and or xor shift-left shift-right-arithmetic shift-right-logical mulhi", "s32[4]", 2),
    *_same("clamp", F, 3),
    *_same("bitcast opt-barrier", F, 1),
    *_same("convert bitcast-convert", "f32[4]", 1, "s32[4]"),
    Case("select", ("pred[4]", "f32[4]", "f32[4]"), "f32[4] select(p0, p1, p2)"),
    Case("stochastic-convert", ("f32[4]", "u32[4]"), "s8[4] stochastic-convert(p0, p1)"),
    *_same("tuple", F, 2, f"({F}, {F})"),
    *_same("after-all", "token[]", 2),
    Case("add-dependency", (F, "token[]"), f"{F} add-dependency(p0, p1)"),
    *_same("replica-id partition-id", "u32[]", 0),
    Case("dynamic-reshape", ("f32[4]", "s32[]"), "f32[<=4] dynamic-reshape(p0, p1)"),
    Case(
        "dynamic-update-slice",
        (F, "f32[2,2]", "s32[]"),
        f"{F} dynamic-update-slice(p0, p1, p2, p2)",
    ),
    Case(
        "accuracy mode",
        (F,),
        f"{F} exponential(p0), result_accuracy={{mode=highest}}",
        {"result_accuracy": ResultAccuracy("highest")},
    ),
    Case(
        "accuracy tolerance",
        (F,),
        f"{F} tanh(p0), result_accuracy={{tolerance={{atol=0.5,rtol=0.25,ulps=2}}}}",
        {"result_accuracy": ResultAccuracy("", 0.5, 0.25, 2)},
    ),
    Case("compare", (F,), "pred[4,8] compare(p0, p0), direction=LT", {"direction": "LT"}),
    Case(
        "compare total",
        (F,),
        "pred[4,8] compare(p0, p0), direction=GE, type=TOTALORDER",
        {"direction": "GE", "type": "TOTALORDER"},
    ),
    Case("compare ints", ("s8[4]",), "pred[4] compare(p0, p0), direction=EQ", {"direction": "EQ"}),
    Case(
        "reduce-precision",
        (F,),
        f"{F} reduce-precision(p0), exponent_bits=5, mantissa_bits=2",
        {"exponent_bits": 5, "mantissa_bits": 2},
    ),
]

MOVEMENT = [
    Case("broadcast", ("f32[8]",), "f32[4,8] broadcast(p0), dimensions={1}", {"dimensions": (1,)}),
    Case("reshape", (F,), "f32[32] reshape(p0)"),
    Case(
        "reshape inferred",
        ("f32[<=4,8]",),
        "f32[<=32] reshape(p0), inferred_dimension=0",
        {"inferred_dimension": 0},
    ),
    Case("transpose", (F,), "f32[8,4] transpose(p0), dimensions={1,0}", {"dimensions": (1, 0)}),
    Case("reverse", (F,), "f32[4,8] reverse(p0), dimensions={1}", {"dimensions": (1,)}),
    Case(
        "slice",
        (F,),
        "f32[2,4] slice(p0), slice={[0:2], [1:8:2]}",
        {"slice": (SliceDim(0, 2), SliceDim(1, 8, 2))},
    ),
    Case(
        "dynamic-slice",
        (F, "s32[]"),
        "f32[2,4] dynamic-slice(p0, p1, p1), dynamic_slice_sizes={2,4}",
        {"dynamic_slice_sizes": (2, 4)},
    ),
    Case(
        "pad",
        (F, "f32[]"),
        "f32[6,16] pad(p0, p1), padding=1_1x2_-1_1",
        {"padding": (PadDim(1, 1), PadDim(2, -1, 1))},
    ),
    Case(
        "concatenate",
        (F, F),
        "f32[4,16] concatenate(p0, p1), dimensions={1}",
        {"dimensions": (1,)},
    ),
    Case("iota", (), "f32[4,8] iota(), iota_dimension=1", {"iota_dimension": 1}),
    Case("iota first", (), "f32[4,8] iota(), iota_dimension=0", {"iota_dimension": 0}),
    Case(
        "get-tuple-element",
        ("(f32[], s32[])",),
        "s32[] get-tuple-element(p0), index=1",
        {"index": 1},
    ),
    Case(
        "parameter replicated",
        (),
        "f32[4] parameter(0), parameter_replication={true}",
        {"parameter_number": 0, "parameter_replication": (True,)},
    ),
    Case(
        "gather",
        ("f32[3,4,5]", "s64[3,2]"),
        "f32[3,2] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1,2},"
        " index_vector_dim=1, slice_sizes={1,1,2}, operand_batching_dims={0},"
        " start_indices_batching_dims={0}, indices_are_sorted=true",
        {
            "offset_dims": (1,),
            "collapsed_slice_dims": (1,),
            "start_index_map": (1, 2),
            "operand_batching_dims": (0,),
            "start_indices_batching_dims": (0,),
            "index_vector_dim": 1,
            "slice_sizes": (1, 1, 2),
            "indices_are_sorted": True,
        },
    ),
    Case(
        "scatter",
        ("f32[3,4,5]", "s64[3,2]", "f32[3,2]"),
        "f32[3,4,5] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={1},"
        " scatter_dims_to_operand_dims={1,2}, index_vector_dim=1, input_batching_dims={0},"
        " scatter_indices_batching_dims={0}, indices_are_sorted=true, unique_indices=true,"
        " to_apply=add",
        {
            "update_window_dims": (1,),
            "inserted_window_dims": (1,),
            "scatter_dims_to_operand_dims": (1, 2),
            "input_batching_dims": (0,),
            "scatter_indices_batching_dims": (0,),
            "index_vector_dim": 1,
            "indices_are_sorted": True,
            "unique_indices": True,
            "to_apply": "add",
        },
        ADD,
    ),
    Case(
        "get-dimension-size",
        (F,),
        "s32[] get-dimension-size(p0), dimensions={1}",
        {"dimensions": (1,)},
    ),
    Case(
        "set-dimension-size",
        (F, "s32[]"),
        "f32[4,<=8] set-dimension-size(p0, p1), dimensions={1}",
        {"dimensions": (1,)},
    ),
]
