"""Frontend attributes that say where and with what an instruction is compiled and run.

Instructions that are made for the sake of one that has them have them too (`Annotations.place`).
"""

from __future__ import annotations

from typing import Final

COLOCATE_KEY: Final = "xladev_colocate"
"""Instructions with the same value, which is any word, run on one device."""
SCOPE_KEY: Final = "xladev_jit_scope"
"""Connected instructions with the same value are compiled together below level 2."""
PLACE_KEYS: Final = frozenset({COLOCATE_KEY, SCOPE_KEY})
