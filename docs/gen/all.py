"""Writes the pages that are generated from code, or checks them.

    python docs/gen/all.py            write every page that has changed
    python docs/gen/all.py --check    name the pages that are out of date, and exit with 1

Every other script in this folder defines PAGE, a path under docs/, and render() -> str; `pieces/`
holds what several of them use.
"""

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

GEN = Path(__file__).parent
DOCS = GEN.parent
sys.path.insert(0, str(GEN))


def pages() -> Iterator[tuple[Path, str]]:
    """(path, text as the code is now) of each generated page."""
    for script in sorted(GEN.glob("*.py")):
        if script != Path(__file__):
            spec = importlib.util.spec_from_file_location(f"gen_{script.stem}", script)
            assert spec and spec.loader, script
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            yield DOCS / module.PAGE, module.render()


def stale() -> list[tuple[Path, str]]:
    """The pages whose file is missing or differs."""
    return [(p, text) for p, text in pages() if not p.is_file() or p.read_text("utf-8") != text]


def main() -> int:
    """Write or check; 1 if a check found something."""
    parser = argparse.ArgumentParser(description="generate reference pages")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    found = stale()
    for path, text in found:
        if not check:
            path.write_text(text, "utf-8")
        print(f"docs/{path.relative_to(DOCS)} {'is out of date' if check else 'written'}")
    if check and found:
        print("run: python docs/gen/all.py")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())
