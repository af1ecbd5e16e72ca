#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judge a device, the plugin or a running server against transformers: eval_accuracy.py --help (docs/tools.md)."""

import sys

from bundle.tool import start

if __name__ == "__main__":
    sys.exit(start("reference", "reference.accuracy", "model_code"))
