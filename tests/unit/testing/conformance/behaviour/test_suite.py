"""The suite itself: enough of it, no empty row, every attribute varied, names to filter by."""

from collections import Counter, defaultdict
from functools import cache

from xladev.hlo.ir import reachable
from xladev.hlo.opset import OPSET
from xladev.testing.conformance.case import AnyCase, Case, load_cases
from xladev.testing.conformance.location import is_case_file, suite_folder
from xladev.testing.conformance.matrix import matrix_of

UNVARIED = {
    # one value is all there is, or all that may stand beside array semantics
    "domain.domain", "shuffle.mode", "select-and-scatter.select",
    "copy-start.cross_program_prefetch_index",
    # hardware formats that the evaluator has no meaning for
    "dot.sparsity_config", "dot.block_scaling_config", "convolution.sparsity_config",
    "convolution.block_scaling_config",
    # kept for targets of custom calls that xladev does not know
    "custom-call.window", "custom-call.dim_labels", "custom-call.feature_group_count",
    "custom-call.batch_group_count", "custom-call.to_apply", "custom-call.called_computations",
    "custom-call.output_to_operand_aliasing", "custom-call.padding_type", "custom-call.literal",
    "custom-call.operand_precision", "custom-call.schedule",
}  # fmt: skip
KNOWN = (
    "BackwardInputLowPaddingLessThanHighPadding", "ReduceR1_16KP1_F32_To_R0",
    "VariadicReduceArgMaxR1", "MultiOutputReduceFusionMinorWithExtraOutput", "Fibonacci",
)  # fmt: skip


@cache
def suite() -> dict[str, AnyCase]:
    return {
        f"{path.stem}::{case.name}": case
        for path in sorted(suite_folder().glob("*.py"))
        if is_case_file(path)
        for case in load_cases(path)
    }


def test_there_are_enough_cases_of_every_tier() -> None:
    assert len(suite()) >= 5000
    assert {case.tier for case in suite().values()} == {1, 2, 3, 4, 5, 6}


def test_every_opcode_has_a_row() -> None:
    assert matrix_of([]).bare == ()


def test_names_known_elsewhere_can_be_filtered_by() -> None:
    names = Counter(k for i in suite() for k in KNOWN if k in i)
    assert set(names) == set(KNOWN)


def test_every_attribute_is_varied() -> None:
    values: dict[str, set[str]] = defaultdict(set)
    for case in suite().values():
        if isinstance(case, Case):
            for computation in reachable(case.module().entry):
                for i in computation.instructions:
                    for attr in i.op.attrs:
                        values[f"{i.opcode}.{attr.name}"].add(repr(i[attr.name])[:200])
    wanted = {f"{n}.{a.name}" for n, op in OPSET.items() if not op.exempt for a in op.attrs}
    assert {w for w in wanted if len(values[w]) < 2} <= UNVARIED
