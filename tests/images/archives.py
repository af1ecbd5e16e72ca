# SPDX-License-Identifier: Apache-2.0
"""Archives of texts, as the acceptance and the support bundle write them."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpacked(archive: Path) -> dict[str, str]:
    """Files of an archive of texts by their names below its folder."""
    with tarfile.open(archive) as opened:
        files = {member.name.partition("/")[2]: opened.extractfile(member) for member in opened}
        return {name: file.read().decode() for name, file in files.items() if file}
