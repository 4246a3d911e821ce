"""Factor rules of products and convolutions."""

from __future__ import annotations

from xladev.hlo.attributes import ConvDims, WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder


def dot(i: HloInstruction) -> FactorRule | None:
    """Batch and free dimensions pass, contracted ones are summed over."""
    if len(i.operands) != 2:
        return None  # with sparsity
    return _product(i, ())


def scaled_dot(i: HloInstruction) -> FactorRule | None:
    """As a dot, where a scale belongs to one element; blocks of several are needed whole."""
    x, y, x_scale, y_scale = (o.shape for o in i.operands)
    if (x.dims, y.dims) != (x_scale.dims, y_scale.dims):
        return None
    return _product(i, (0, 1))


def _product(i: HloInstruction, scales: tuple[int, ...]) -> FactorRule:
    """``scales``: for each operand behind the second the one whose dimensions it has."""
    x, y = (o.shape for o in i.operands[:2])
    b = RuleBuilder([o.shape.rank for o in i.operands], [i.shape.rank])
    batch = list(zip(i["lhs_batch_dims"], i["rhs_batch_dims"], strict=True))
    summed = list(zip(i["lhs_contracting_dims"], i["rhs_contracting_dims"], strict=True))

    def add(dims: tuple[int | None, int | None], to: int | None, size: int) -> None:
        kind = FactorKind.REDUCE if to is None else FactorKind.PASS
        b.factor([*dims, *(dims[s] for s in scales)], [to], size, kind)

    for to, (d, e) in enumerate(batch):
        add((d, e), to, x.dims[d])
    to = len(batch)
    for d, size in enumerate(x.dims):
        if d not in [p[0] for p in (*batch, *summed)]:
            add((d, None), to, size)
            to += 1
    for e, size in enumerate(y.dims):
        if e not in [p[1] for p in (*batch, *summed)]:
            add((None, e), to, size)
            to += 1
    for d, e in summed:
        add((d, e), None, x.dims[d])
    return b.build()


def convolution(i: HloInstruction) -> FactorRule | None:
    """Batch and output features pass, input features are summed over, spatial dimensions move."""
    if len(i.operands) != 2:
        return None  # with sparsity or scales
    x, kernel = (o.shape for o in i.operands)
    labels: ConvDims = i["dim_labels"]
    b = RuleBuilder([x.rank, kernel.rank], [i.shape.rank])
    whole = FactorKind.WHOLE
    groups, batches = i["feature_group_count"], i["batch_group_count"]
    size = i.shape.dims[labels.output_batch]
    b.factor([labels.input_batch, None], [labels.output_batch], size,
             FactorKind.PASS if batches == 1 else whole)  # fmt: skip
    features = i.shape.dims[labels.output_feature]
    inputs = kernel.dims[labels.kernel_input_feature]
    if groups > 1:
        # group g of the output is made of group g of the input, and of nothing else
        b.factor([labels.input_feature, labels.kernel_output_feature], [labels.output_feature],
                 groups)  # fmt: skip
    b.factor([None, labels.kernel_output_feature], [labels.output_feature], features // groups,
             FactorKind.PASS if batches == 1 and groups == 1 else whole)  # fmt: skip
    b.factor([labels.input_feature, labels.kernel_input_feature], [None], inputs,
             FactorKind.REDUCE if groups == 1 else whole)  # fmt: skip
    for n, window in enumerate(i["window"]):
        _spatial(b, i, labels, n, window)
    return b.build()


def divided_convolution(i: HloInstruction) -> FactorRule | None:
    """The factors along which a convolution may be cut: those of `convolution`, and more.

    Batch groups are outer parts of the batch and of the features. A dimension of a kernel that is
    longer than its results, as in gradients of kernels, is summed over, and each part meets a part
    of the image. Of a dimension that is a batch (`is_batch`) each device has a part.
    """
    if len(i.operands) != 2:
        return None
    x, kernel = (o.shape for o in i.operands)
    labels: ConvDims = i["dim_labels"]
    features, batches = i["feature_group_count"], i["batch_group_count"]
    b = RuleBuilder([x.rank, kernel.rank], [i.shape.rank])
    batch = [labels.input_batch, None], [labels.output_batch], i.shape.dims[labels.output_batch]
    outputs = kernel.dims[labels.kernel_output_feature]
    if batches > 1:
        b.factor([labels.input_batch, labels.kernel_output_feature], [labels.output_feature],
                 batches)  # fmt: skip
    b.factor(*batch)
    if features > 1:
        b.factor([labels.input_feature, labels.kernel_output_feature], [labels.output_feature],
                 features)  # fmt: skip
    b.factor([None, labels.kernel_output_feature], [labels.output_feature],
             outputs // (features * batches),
             FactorKind.PASS if features == 1 else FactorKind.WHOLE)  # fmt: skip
    b.factor([labels.input_feature, labels.kernel_input_feature], [None],
             kernel.dims[labels.kernel_input_feature],
             FactorKind.REDUCE if features == 1 else FactorKind.WHOLE)  # fmt: skip
    for n, window in enumerate(i["window"]):
        if is_batch(i, n):
            b.factor([labels.input_spatial[n], labels.kernel_spatial[n]],
                     [labels.output_spatial[n]], window.size)  # fmt: skip
        elif window.size > i.shape.dims[labels.output_spatial[n]] > 0:
            b.factor([labels.input_spatial[n], labels.kernel_spatial[n]], [None], window.size,
                     FactorKind.REDUCE)  # fmt: skip
            b.factor([None, None], [labels.output_spatial[n]],
                     i.shape.dims[labels.output_spatial[n]], FactorKind.WHOLE)  # fmt: skip
        else:
            _spatial(b, i, labels, n, window)
    return b.build()


def is_batch(i: HloInstruction, n: int) -> bool:
    """True for a spatial dimension whose result p is of element p of image and kernel alone.

    So XLA writes batches of convolutions that its backends have as one.
    """
    window: WindowDim = i["window"][n]
    size = window.size
    is_of_one = i.operands[0].shape.dims[i["dim_labels"].input_spatial[n]] == size
    return size > 1 and is_of_one and window == WindowDim(size, size - 1, base_dilation=size)


def _spatial(
    b: RuleBuilder, i: HloInstruction, labels: ConvDims, n: int, window: WindowDim
) -> None:
    d, to = labels.input_spatial[n], labels.output_spatial[n]
    size = i.shape.dims[to]
    if window == WindowDim(1) and i.operands[0].shape.dims[d] == size:
        b.factor([d, None], [to], size)
    else:
        b.factor([d, None], [to], size, FactorKind.MOVE)
    b.factor([None, labels.kernel_spatial[n]], [None], window.size, FactorKind.WHOLE)
