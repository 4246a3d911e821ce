"""All recipes in one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.testing.draw import Recipe
from xladev.testing.recipes.control import CONTROL
from xladev.testing.recipes.devices import DEVICES
from xladev.testing.recipes.dynamic import DYNAMIC
from xladev.testing.recipes.elementwise import ELEMENTWISE
from xladev.testing.recipes.library import LIBRARY
from xladev.testing.recipes.movement import MOVEMENT
from xladev.testing.recipes.products import PRODUCTS
from xladev.testing.recipes.reductions import REDUCTIONS
from xladev.testing.recipes.solvers import SOLVERS

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        **ELEMENTWISE,
        **MOVEMENT,
        **REDUCTIONS,
        **PRODUCTS,
        **SOLVERS,
        **CONTROL,
        **DEVICES,
        **DYNAMIC,
        **LIBRARY,
    }
)
"""Recipe by opcode."""
