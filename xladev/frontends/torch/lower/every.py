"""All lowerings in one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.frontends.torch.lower.activations import ACTIVATIONS
from xladev.frontends.torch.lower.attention import ATTENTION
from xladev.frontends.torch.lower.bits import BITS
from xladev.frontends.torch.lower.comparison import COMPARISON
from xladev.frontends.torch.lower.convolution import CONVOLUTION
from xladev.frontends.torch.lower.cumulative import CUMULATIVE
from xladev.frontends.torch.lower.distances import DISTANCES
from xladev.frontends.torch.lower.elementwise import ELEMENTWISE
from xladev.frontends.torch.lower.factories import FACTORIES
from xladev.frontends.torch.lower.fourier import FOURIER
from xladev.frontends.torch.lower.indexing import INDEXING
from xladev.frontends.torch.lower.linear_algebra import LINEAR_ALGEBRA
from xladev.frontends.torch.lower.normalization import NORMALIZATION
from xladev.frontends.torch.lower.polynomials import POLYNOMIALS
from xladev.frontends.torch.lower.pooling import POOLING
from xladev.frontends.torch.lower.products import PRODUCTS
from xladev.frontends.torch.lower.random import RANDOM
from xladev.frontends.torch.lower.recurrent import RECURRENT
from xladev.frontends.torch.lower.reductions import REDUCTIONS
from xladev.frontends.torch.lower.resampling import RESAMPLING
from xladev.frontends.torch.lower.sorting import SORTING
from xladev.frontends.torch.lower.special import SPECIAL
from xladev.frontends.torch.lower.spectral import SPECTRAL
from xladev.frontends.torch.lower.table import Family, Lowering
from xladev.frontends.torch.lower.views import VIEWS

FAMILIES: tuple[Family, ...] = (
    ELEMENTWISE,
    COMPARISON,
    VIEWS,
    BITS,
    FACTORIES,
    REDUCTIONS,
    CUMULATIVE,
    SORTING,
    INDEXING,
    PRODUCTS,
    CONVOLUTION,
    NORMALIZATION,
    ACTIVATIONS,
    ATTENTION,
    RANDOM,
    RESAMPLING,
    DISTANCES,
    SPECIAL,
    POLYNOMIALS,
    POOLING,
    LINEAR_ALGEBRA,
    SPECTRAL,
    FOURIER,
    RECURRENT,
)

LOWERINGS: Mapping[str, Lowering] = MappingProxyType(
    {lowering.overload: lowering for family in FAMILIES for lowering in family}
)
"""By overload, such as ``aten.add.Tensor``."""
