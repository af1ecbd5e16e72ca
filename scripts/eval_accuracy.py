#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judge a device, the plugin or a running server against transformers: eval_accuracy.py --help (docs/tools.md).

model_code/reference/accuracy.py, in the environment reference: compute logits on each side in a process of its own,
compare them position by position, write the report, and end with status 1 if a threshold is missed.
"""

from lib import launch

if __name__ == "__main__":
    launch.tool("reference", "reference.accuracy")
