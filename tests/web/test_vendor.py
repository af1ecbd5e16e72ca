# SPDX-License-Identifier: Apache-2.0
"""The vendored libraries are the files that their README names, with their licences."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[2] / "parser/docparser/web/static/vendor"


def test_files_and_licences():
    listed = dict(re.findall(r"\| `([^`]+)` \| `([0-9a-f]{64})` \|", (VENDOR / "README.md").read_text()))
    found = {
        str(path.relative_to(VENDOR)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.suffix in (".js", ".mjs", ".css")
    }
    assert listed == found and len(found) == 5
    for name in ("katex", "markdown-it", "dompurify", "fflate"):
        assert "icense" in (VENDOR / name / "LICENSE.txt").read_text()
