"""All recipes in one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.testing.random_program import Recipe
from xladev.testing.recipes.combining import COMBINING
from xladev.testing.recipes.control import CONTROL
from xladev.testing.recipes.elementwise import ELEMENTWISE
from xladev.testing.recipes.movement import MOVEMENT

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {**ELEMENTWISE, **MOVEMENT, **COMBINING, **CONTROL}
)
"""Recipe by opcode."""
