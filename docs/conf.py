"""Sphinx settings: Markdown pages, nothing fetched, every warning an error (see `make docs`)."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = (ROOT / "xladev" / "__init__.py").read_text("utf-8")

project = "xladev"
author = "The xladev authors"
project_copyright = "2026, The xladev authors"
release = next(iter(re.findall(r'__version__ = "(.+)"', SOURCE)))

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["gen/**", "_build/**"]

html_theme = "furo"
html_title = f"xladev {release}"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["xladev.css"]
