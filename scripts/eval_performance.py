#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time transformers on each device of this machine: eval_performance.py --help (docs/tools.md).

model_code/reference/performance.py, in the environment reference: load the model on each device, time prefill and
decoding, write the report.
"""

from lib import launch

if __name__ == "__main__":
    launch.tool("reference", "reference.performance")
