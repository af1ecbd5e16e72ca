#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parse folders of PDFs and images with running parsers: parse_folder.py INPUT... --out DIR (docs/tools.md)."""

import sys

from bundle.tool import start

if __name__ == "__main__":
    sys.exit(start("client", "batch.main", "scripts"))
