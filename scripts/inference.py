#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read images with PaddleOCR-VL on transformers: inference.py --model_path DIR --image FILE... (docs/tools.md).

model_code/reference/inference.py, in the environment reference: load the model on the device, read each image, and
stream the text to stdout.
"""

from lib import launch

if __name__ == "__main__":
    launch.tool("reference", "reference.inference")
