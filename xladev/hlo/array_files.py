"""What NumPy raises where a .npy or .npz file is damaged or lies about itself."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from typing import Final

ARRAY_FILE_DAMAGE: Final = (
    ValueError, EOFError, MemoryError, LookupError, TypeError, SyntaxError, RecursionError,
    NotImplementedError, OverflowError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Besides OSError: headers that are no Python, sizes that nobody has, archives cut or changed."""
