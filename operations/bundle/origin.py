# SPDX-License-Identifier: Apache-2.0
"""What this tree was made from: its commit, where that lies, and whether files differ from it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bundle.paths import ROOT, VALUES
from bundle_version import VERSION

# In a release's archives, which carry no git: what `Origin.text` gives.
FILE = "origin.json"
# Of a release's files, and of the folder in its archives: versions unpacked side by side do not touch each other.
NAME = f"paddleocr-vl-{VERSION}"
UNKNOWN, DIRTY = "unknown", "-dirty"


@dataclass(frozen=True)
class Origin:
    """`revision` is a full commit, with `-dirty` behind it where files differ from it. Both are `unknown` where neither
    git nor the archive tells."""

    revision: str
    source: str
    version: str = VERSION

    @property
    def dirty(self) -> bool:
        return self.revision.endswith(DIRTY)

    def text(self) -> str:
        """What an archive's `origin.json` holds."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def build_arguments(self) -> dict[str, str]:
        """The settings from which compose.yaml takes the images' labels; `created` is now, in UTC (RFC 3339)."""
        return {"BUNDLE_REVISION": self.revision, "BUNDLE_SOURCE": self.source, "BUNDLE_CREATED": now()}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def git(*words: str, root: Path = ROOT) -> str | None:
    """Output of a git command, None where it fails or git is missing."""
    try:
        answer = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def address(remote: str) -> str:
    """A remote's address as a URI, without the name and password that it may carry: `git@host:a/b` becomes
    `ssh://host/a/b`. Empty for a path of this machine."""
    if short := re.fullmatch(r"(?:[^/@]*@)?([^/:@]+):(?!//)(.+)", remote):
        return f"ssh://{short[1]}/{short[2]}"
    return re.sub(r"^(\w+://)[^/@]*@", r"\1", remote) if "://" in remote else ""


def origin(root: Path = ROOT) -> Origin:
    """The tree's origin, from git in a checkout, else from the archive that it came in, which cannot tell what was
    changed since.

    BUNDLE_SOURCE, if it is set, says where the commit lies, instead of the remote `origin`.
    """
    carried: dict[str, str] = {}
    if (root / ".git").exists():  # not that of a repository in which an archive was unpacked
        revision = git("rev-parse", "HEAD", root=root)
        changed = git("status", "--porcelain", root=root) != ""
        carried = {
            "revision": revision + (DIRTY if changed else "") if revision else "",
            "source": git("remote", "get-url", "origin", root=root) or "",
        }
    elif (root / FILE).is_file():
        carried = json.loads((root / FILE).read_text(encoding="utf-8"))
    source = address(VALUES.get("BUNDLE_SOURCE") or carried.get("source") or "")
    return Origin(carried.get("revision") or UNKNOWN, source or UNKNOWN)
