#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a model sees of images and videos: explain_inputs.py MODEL FILE... [--picture OUT.png] (docs/tools.md).

model_code/reference/explain/__main__.py, in the environment reference: run the model's own processors, without its
weights, and print sizes, patches, tokens, cost in the vision tower, the prompt, and position ids by axis.
"""

from lib import launch

if __name__ == "__main__":
    launch.tool("reference", "reference.explain")
