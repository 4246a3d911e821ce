"""Cases of contractions, reductions, random numbers and linear algebra."""

from tests.unit.hlo.proto.case import ADD, Case, F
from xladev.hlo.attributes import ConvDims, WindowDim

CONV_2D = ConvDims(0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))
DOT = {"lhs_contracting_dims": (2,), "rhs_contracting_dims": (1,)}
DOT_TEXT = "lhs_contracting_dims={2}, rhs_contracting_dims={1}"
SPARSE = (
    "{lhs={sparsity=2x4 dimension=1 stride=1 idx=2} rhs={sparsity=1x2 dimension=0 stride=0 idx=0}}"
)
SCALED = "{lhs={scale_idx=2 zero_idx=3 strides=1x2 steps=3x4} rhs={scale_idx=2}}"
COMPUTE = [
    Case(
        "dot",
        ("f32[2,4,8]", "f32[2,8,3]"),
        f"f32[2,4,3] dot(p0, p1), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, {DOT_TEXT},"
        " operand_precision={highest,default}, algorithm=dot_bf16_bf16_f32_x3",
        {
            "lhs_batch_dims": (0,),
            "rhs_batch_dims": (0,),
            **DOT,
            "operand_precision": ("highest", "default"),
            "algorithm": "dot_bf16_bf16_f32_x3",
        },
    ),
    Case(
        "dot sparse",
        ("f32[4,8]", "f32[8,3]"),
        "f32[4,3] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0},"
        f" sparsity_config={SPARSE}, block_scaling_config={SCALED}",
        {
            "lhs_contracting_dims": (1,),
            "rhs_contracting_dims": (0,),
            "sparsity_config": SPARSE,
            "block_scaling_config": SCALED,
        },
    ),
    Case(
        "ragged-dot",
        ("f32[11,64,9]", "f32[11,9,8]", "s32[11,4]"),
        "f32[11,64,8] ragged-dot(p0, p1, p2), lhs_batch_dims={0}, rhs_batch_dims={0},"
        f" {DOT_TEXT}, lhs_ragged_dims={{2}}, rhs_group_dims={{}}, operand_precision={{high,high}}",
        {
            "lhs_batch_dims": (0,),
            "rhs_batch_dims": (0,),
            **DOT,
            "lhs_ragged_dims": (2,),
            "operand_precision": ("high", "high"),
        },
    ),
    Case(
        "ragged-dot groups",
        ("f32[64,9]", "f32[4,9,8]", "s32[4]"),
        "f32[64,8] ragged-dot(p0, p1, p2), lhs_contracting_dims={1}, rhs_contracting_dims={1},"
        " lhs_ragged_dims={0}, rhs_group_dims={0}",
        {
            "lhs_contracting_dims": (1,),
            "rhs_contracting_dims": (1,),
            "lhs_ragged_dims": (0,),
            "rhs_group_dims": (0,),
        },
    ),
    Case(
        "scaled-dot",
        ("f8e4m3fn[64,32]", "f8e4m3fn[16,32]", "f8e8m0fnu[64,1]", "f8e8m0fnu[16,1]"),
        "f32[64,16] scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (1,)},
    ),
    Case(
        "convolution",
        ("f32[2,4,8,8]", "f32[6,2,3,3]"),
        "f32[2,6,4,7] convolution(p0, p1), window={size=3x3 stride=2x1 pad=1_0x2_1 lhs_dilate=1x1"
        " rhs_dilate=1x2 rhs_reversal=0x1}, dim_labels=bf01_oi01->bf01, feature_group_count=2,"
        " operand_precision={high,highest}, convolution_kind=fprop, sparsity_config="
        + SPARSE
        + ", block_scaling_config="
        + SCALED,
        {
            "window": (
                WindowDim(3, 2, 1, 0, 1, 1, False),
                WindowDim(3, 1, 2, 1, 1, 2, True),
            ),
            "dim_labels": CONV_2D,
            "feature_group_count": 2,
            "operand_precision": ("high", "highest"),
            "convolution_kind": "fprop",
            "sparsity_config": SPARSE,
            "block_scaling_config": SCALED,
        },
    ),
    Case(
        "convolution batch groups",
        ("f32[2,4,8,8]", "f32[6,4,1,1]"),
        "f32[1,6,15,8] convolution(p0, p1), window={size=1x1 lhs_dilate=2x1},"
        " dim_labels=bf01_oi01->bf01, batch_group_count=2, algorithm=dot_tf32_tf32_f32",
        {
            "window": (WindowDim(1, base_dilation=2), WindowDim(1)),
            "dim_labels": CONV_2D,
            "batch_group_count": 2,
            "algorithm": "dot_tf32_tf32_f32",
        },
    ),
    Case(
        "reduce",
        (F, "f32[]"),
        "f32[8] reduce(p0, p1), dimensions={0}, to_apply=add",
        {"dimensions": (0,), "to_apply": "add"},
        ADD,
    ),
    Case(
        "map",
        (F, F),
        f"{F} map(p0, p1), dimensions={{0,1}}, to_apply=add",
        {"dimensions": (0, 1), "to_apply": "add"},
        ADD,
    ),
    Case(
        "reduce-window",
        (F, "f32[]"),
        "f32[3,8] reduce-window(p0, p1), window={size=2x1}, to_apply=add",
        {"window": (WindowDim(2), WindowDim(1)), "to_apply": "add"},
        ADD,
    ),
    Case(
        "select-and-scatter",
        ("f32[4,4]", "f32[2,2]", "f32[]"),
        "f32[4,4] select-and-scatter(p0, p1, p2), window={size=2x2 stride=2x2}, select=ge,"
        " scatter=add",
        {"window": (WindowDim(2, 2), WindowDim(2, 2)), "select": "ge", "scatter": "add"},
        ADD + "\n\nge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT g = pred[] compare(a, b), direction=GE\n}",
    ),
    Case(
        "scan",
        ("f32[4]", "f32[]"),
        "(f32[], f32[4]) scan(p1, p0), dimensions={0}, num_carries=1, is_reverse=true,"
        " is_associative=true, to_apply=step",
        {
            "dimensions": (0,),
            "num_carries": 1,
            "is_reverse": True,
            "is_associative": "true",
            "to_apply": "step",
        },
        "step {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  s = f32[] add(a, b)\n"
        "  ROOT t = (f32[], f32[]) tuple(s, s)\n}",
    ),
    Case(
        "sort",
        ("f32[8]",),
        "f32[8] sort(p0), dimensions={0}, is_stable=true, to_apply=lt",
        {"dimensions": (0,), "is_stable": True, "to_apply": "lt"},
        "lt {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT l = pred[] compare(a, b), direction=LT\n}",
    ),
    Case(
        "topk",
        ("f32[8]",),
        "(f32[3], s32[3]) topk(p0), k=3, largest=false, is_stable=true",
        {"k": 3, "largest": False, "is_stable": True},
    ),
    Case(
        "batch-norm-training",
        (F, "f32[8]", "f32[8]"),
        f"({F}, f32[8], f32[8]) batch-norm-training(p0, p1, p2), epsilon=0.5, feature_index=1",
        {"epsilon": 0.5, "feature_index": 1},
    ),
    Case(
        "batch-norm-inference",
        (F, "f32[8]", "f32[8]", "f32[8]", "f32[8]"),
        f"{F} batch-norm-inference(p0, p1, p2, p3, p4), epsilon=0.25, feature_index=1",
        {"epsilon": 0.25, "feature_index": 1},
    ),
    Case(
        "batch-norm-grad",
        (F, "f32[8]", "f32[8]", "f32[8]", F),
        f"({F}, f32[8], f32[8]) batch-norm-grad(p0, p1, p2, p3, p4), epsilon=2, feature_index=1",
        {"epsilon": 2.0, "feature_index": 1},
    ),
    Case(
        "rng",
        ("f32[]", "f32[]"),
        "f32[4] rng(p0, p1), distribution=rng_normal",
        {"distribution": "rng_normal"},
    ),
    Case(
        "rng-bit-generator",
        ("u64[2]",),
        "(u64[2], u32[4]) rng-bit-generator(p0), algorithm=rng_philox",
        {"algorithm": "rng_philox"},
    ),
    Case(
        "rng-bit-generator default",
        ("u64[2]",),
        "(u64[2], u32[4]) rng-bit-generator(p0), algorithm=rng_default",
        {"algorithm": "rng_default"},
    ),
    Case(
        "rng-get-and-update-state",
        (),
        "u64[2] rng-get-and-update-state(), delta=5",
        {"delta": 5},
    ),
    Case("cholesky", ("f32[4,4]",), "f32[4,4] cholesky(p0), lower=true", {"lower": True}),
    Case(
        "triangular-solve",
        ("f32[4,4]", "f32[4,4]"),
        "f32[4,4] triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=true,"
        " transpose_a=ADJOINT",
        {"left_side": True, "lower": True, "unit_diagonal": True, "transpose_a": "ADJOINT"},
    ),
    Case(
        "triangular-solve plain",
        ("f32[4,4]", "f32[4,4]"),
        "f32[4,4] triangular-solve(p0, p1), transpose_a=NO_TRANSPOSE",
    ),
    Case(
        "fft",
        ("c64[4,8]",),
        "c64[4,8] fft(p0), fft_type=IFFT, fft_length={8}",
        {"fft_type": "IFFT", "fft_length": (8,)},
    ),
    Case(
        "fft first type",
        ("c64[4,8]",),
        "c64[4,8] fft(p0), fft_type=FFT, fft_length={4,8}",
        {"fft_type": "FFT", "fft_length": (4, 8)},
    ),
]
