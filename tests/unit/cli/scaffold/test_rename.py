"""Renaming: every spelling of the template's name, and the order of imports."""

from xladev import __version__
from xladev.cli.scaffold.names import Names
from xladev.cli.scaffold.rename import renamed, sorted_imports

NAMES = Names("my_npu", "tpu", "Some Vendor")


def test_every_spelling_is_renamed() -> None:
    text = (
        "xladev.platforms.template_npu.driver TemplateNpuExecutor TEMPLATE_NPU_DEVICES "
        'xladev_template_npu template-npu template_npu:0 Example Vendor xladev>=0 kind="npu" '
        "TemplateMemoryPlatform template_memory the template NPU's NpuStream _NpuEvent npu_open"
    )
    assert renamed(text, NAMES) == (
        "xladev_my_npu.driver MyNpuExecutor MY_NPU_DEVICES "
        f'xladev_my_npu my-npu my_npu:0 Some Vendor xladev>={__version__} kind="tpu" '
        "MyNpuPlatform my_npu my_npu's MyNpuStream _MyNpuEvent npu_open"
    )


def test_paths_are_renamed() -> None:
    assert renamed("tests/test_template_npu.py", NAMES) == "tests/test_my_npu.py"


BEFORE = """\
import os

import numpy as np

from xladev.errors import A
from xladev_my.b import (
    B,
    C,
)
from xladev.runtime import D
from xladev_my import E

if True:
    from xladev_my.f import F
    from xladev.g import G
"""

AFTER = """\
import os

import numpy as np

from xladev.errors import A
from xladev.runtime import D
from xladev_my.b import (
    B,
    C,
)
from xladev_my import E

if True:
    from xladev.g import G
    from xladev_my.f import F
"""


def test_own_imports_come_last_in_their_run() -> None:
    assert sorted_imports(BEFORE, "xladev_my") == AFTER
    assert sorted_imports(AFTER, "xladev_my") == AFTER


def test_a_longer_name_is_another_package() -> None:
    source = "import xladev_my_own\nimport os\n"
    assert sorted_imports(source, "xladev_my") == source
