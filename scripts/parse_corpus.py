#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parse all documents below a folder or an S3 prefix on Ray: parse_corpus.py INPUT --out PLACE (docs/corpus.md).

operations/corpus/__main__.py, in the environment corpus: a driver (driver.py) lists what is left to do; on the cluster,
documents are opened (opening.py), read in parts (reading.py) and assembled (assembling.py).
"""

from __future__ import annotations

from lib import launch

if __name__ == "__main__":
    launch.tool("corpus", "corpus")
