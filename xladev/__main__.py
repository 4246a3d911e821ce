"""`python -m xladev` is the command `xladev`."""

import sys

from xladev.cli.main import main

sys.exit(main())
