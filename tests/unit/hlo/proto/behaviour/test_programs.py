"""Exported programs and StableHLO's cases: read, written, read back, and compared with XLA."""

from pathlib import Path

import pytest

from tests.unit.hlo.proto.printed import differences
from tests.unit.hlo.proto.sources import without_sources
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.text import parse_module

PROGRAM_NAMES = (
    "cholesky_solve_generic", "cnn_train_adam_dropout", "collectives_shard_map",
    "cond_switch", "conv_variants", "elementwise_math", "fft_spectral_conv",
    "flax_cnn_optax_train", "gather_modes", "gpt2_decode_step", "heat_stencil_fori",
    "int8_quant_dense", "lstm_scan_fwd_bwd", "mlp_bf16_train", "mlp_forward",
    "mlp_train_momentum", "mnist_softmax_train", "pooling_fwd_bwd", "reductions",
    "resnet8_train", "rng_bit_generator_philox", "rng_threefry", "scatter_add_segment_sum",
    "sort_argsort_multikey", "tf_keras_cnn_train", "tf_mnist_softmax_train", "topk_generic",
    "torch_lstmcell_forward", "torch_mlp_forward", "torch_transformer_forward",
    "transformer_block_fwd_bwd", "while_newton_sqrt",
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_programs_read_back_equal(name: str, programs_dir: Path) -> None:
    module = read_module((programs_dir / f"{name}.pb").read_bytes())
    assert read_module(write_module(module)) == module


def test_no_program_is_left_out(programs_dir: Path) -> None:
    assert sorted(path.stem for path in programs_dir.glob("*.pb")) == sorted(PROGRAM_NAMES)


@pytest.mark.rotating
@pytest.mark.parametrize("tenth", range(10))
def test_cases_read_back_equal(tenth: int, stablehlo_cases: Path) -> None:
    paths = sorted(stablehlo_cases.glob("*/module.pb"))[tenth::10]
    assert len(paths) > 100
    for path in paths:
        module = read_module(path.read_bytes())
        assert read_module(write_module(module)) == module, path


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_proto_and_text_of_a_program_are_one_module(name: str, programs_dir: Path) -> None:
    proto = read_module((programs_dir / f"{name}.pb").read_bytes())
    text = parse_module((programs_dir / f"{name}.hlo").read_text())
    assert without_sources(proto) == without_sources(text)


@pytest.mark.rotating
@pytest.mark.parametrize("tenth", range(10))
def test_proto_and_text_of_cases_are_one_module(tenth: int, stablehlo_cases: Path) -> None:
    for path in sorted(stablehlo_cases.glob("*/module.pb"))[tenth::10]:
        proto = read_module(path.read_bytes())
        text = parse_module(path.with_suffix(".hlo").read_text())
        assert without_sources(proto) == without_sources(text), path


def test_xla_reads_programs_as_they_were(programs_dir: Path) -> None:
    protos = {n: (programs_dir / f"{n}.pb").read_bytes() for n in PROGRAM_NAMES}
    assert differences(protos) == {}


@pytest.mark.rotating
@pytest.mark.parametrize("tenth", range(10))
def test_xla_reads_cases_as_they_were(tenth: int, stablehlo_cases: Path) -> None:
    paths = sorted(stablehlo_cases.glob("*/module.pb"))[tenth::10]
    assert differences({p.parent.name: p.read_bytes() for p in paths}) == {}
