#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time transformers on each device of this machine: eval_performance.py --help (docs/tools.md)."""

import sys

from bundle.tool import start

if __name__ == "__main__":
    sys.exit(start("reference", "reference.performance", "model_code"))
