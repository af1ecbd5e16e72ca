#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parse folders of PDFs and images with running parsers: parse_folder.py INPUT... --out DIR (docs/tools.md).

operations/batch/__main__.py, in the environment client: count the pages, skip what earlier runs parsed and send page
by page (run.py), reach the parsers (parsers.py, local_parsers.py), write the outputs and report what failed
(outputs.py).
"""

from lib import launch

if __name__ == "__main__":
    launch.tool("client", "batch")
