#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parse folders of PDFs and images with running parsers: parse_folder.py INPUT... --out DIR (docs/tools.md).

operations/batch/__main__.py, in the environment client: count the pages and skip what earlier runs parsed
(survey.py), reach the parsers (parsers.py, local_parsers.py), send page by page (run.py), write the outputs, report
what failed (report.py).
"""

from lib import launch

if __name__ == "__main__":
    launch.tool("client", "batch")
