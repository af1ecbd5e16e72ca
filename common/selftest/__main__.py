# SPDX-License-Identifier: Apache-2.0
"""``python -m selftest``: see ``check``."""

import sys

from selftest.check import main
from tool_errors import run

if __name__ == "__main__":
    sys.exit(run(main))
