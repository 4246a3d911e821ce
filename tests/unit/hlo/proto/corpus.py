"""One instruction per attribute of the opset, and the protos that XLA made of their texts.

`frozen.json` holds what jaxlib 0.12 made. To make it again, run
`python -m tests.unit.hlo.proto.corpus` (see `tests/tools/oracle.py` for what that needs).
"""

import base64
import json
import zlib
from pathlib import Path

from tests.tools import oracle
from tests.unit.hlo.proto.cases_compute import COMPUTE
from tests.unit.hlo.proto.cases_control import CONTROL
from tests.unit.hlo.proto.cases_core import ELEMENTWISE, MOVEMENT
from tests.unit.hlo.proto.cases_devices import ASYNC, COLLECTIVE
from tests.unit.hlo.proto.cases_types import SHAPES, SHARDINGS

FROZEN = Path(__file__).parent / "frozen.json"
CASES = [*ELEMENTWISE, *MOVEMENT, *COMPUTE, *CONTROL, *COLLECTIVE, *ASYNC, *SHAPES, *SHARDINGS]


def frozen() -> dict[str, bytes]:
    """The protos that XLA made, by case name."""
    stored = json.loads(FROZEN.read_text())
    return {name: zlib.decompress(base64.b64decode(data)) for name, data in stored.items()}


def freeze() -> None:
    """Asks XLA for the proto of every case, and stores them."""
    answers = oracle.protos_of([case.text for case in CASES])
    stored: dict[str, str] = {}
    for case, answer in zip(CASES, answers, strict=True):
        if isinstance(answer, oracle.Refusal):
            print(f"{case.name}: {answer.why}\n")
        else:
            stored[case.name] = base64.b64encode(zlib.compress(answer, 9)).decode()
    FROZEN.write_text(json.dumps(stored, indent=0) + "\n")
    print(f"{len(stored)} of {len(CASES)} stored")


if __name__ == "__main__":
    freeze()
