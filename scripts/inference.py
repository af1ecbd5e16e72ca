#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read images with PaddleOCR-VL on transformers: inference.py --model_path DIR --image FILE... (docs/tools.md)."""

import sys

from bundle.tool import start

if __name__ == "__main__":
    sys.exit(start("reference", "reference.inference", "model_code"))
