"""Says whether a C compiler can make programs: one without headers or runtime libraries cannot."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

PROBE = "#include <stdint.h>\n#include <stdlib.h>\nint main(void) { return 0; }\n"


@cache
def lacks(*command: str) -> str:
    """What keeps a compiler from making a program; empty if nothing does.

    Args:
        command: the compiler and the flags that decide which libraries it needs, such as
            ``-static`` and ``-fsanitize=thread``.
    """
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not here"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(PROBE)
        made = [*command, str(source), "-o", f"{folder}/probe"]
        done = subprocess.run(made, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 0:
        return ""
    said = next((line for line in done.stderr.splitlines() if "rror: " in line), "")
    why = next((line for line in done.stderr.splitlines() if "cannot find" in line), said)
    return f"{' '.join(command)} makes no programs: {why.strip()}"
