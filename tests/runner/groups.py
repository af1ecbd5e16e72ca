# SPDX-License-Identifier: Apache-2.0
"""The groups of tests: where they lie, in which environment they run, and what of the system they need."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from bundle.compose.containers import engine_answers

# Files of the system that tests read, each with the Debian package that brings it.
DRAWING = (
    ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "fonts-dejavu-core"),
    ("/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf", "fonts-liberation"),
    ("/usr/share/dict/american-english", "wamerican"),
)
BROWSER = (("/usr/bin/chromium", "chromium"),)
COMPILER = (("/usr/bin/cc", "gcc"), ("/usr/bin/nm", "binutils"))
# Programs, and packages at once, without which tests/support/engine cannot start a container engine of its own.
ENGINE = ("runc", "iptables", "debootstrap")


@dataclass(frozen=True)
class Group:
    """One group: the environment that pytest runs in, its paths, and the further environments that its tests start.

    `engine` says that the tests need a container engine, one that answers or one that they can start themselves.
    `builds` says that they mostly build. `options` are pytest's.
    """

    name: str
    environment: str
    paths: tuple[str, ...]
    also: tuple[str, ...] = ()
    system_files: tuple[tuple[str, str], ...] = ()
    engine: bool = False
    builds: bool = False
    options: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Debian packages without which the group cannot run."""
        packages = [package for file, package in self.system_files if not Path(file).exists()]
        if self.engine and not engine_answers():
            # Only root can start an engine.
            packages += ["docker.io"] if os.geteuid() else [name for name in ENGINE if not shutil.which(name)]
        return packages


# The first groups fail soonest; the container images take longest.
GROUPS = {
    group.name: group
    for group in (
        Group("bundle", "tools", ("tests/bundle", "tests/runner")),
        Group(
            "types",
            "tools",
            ("tests/types",),
            also=("client", "parser", "corpus", "vlm", "reference", "npu", "npu-0.13", "api", "browser"),
        ),
        Group("parser", "parser", ("tests/parser",), also=("vlm",)),
        Group("jobs", "parser", ("tests/jobs",), also=("s3",)),
        Group("web", "browser", ("tests/web",), also=("parser",), system_files=BROWSER),
        Group("api", "api", ("tests/api",), also=("parser",)),
        # The environment fuzz lends its packages to the parser's Python.
        Group("fuzz", "parser", ("tests/fuzz",), also=("fuzz",)),
        Group("plugin", "vlm", ("tests/plugin",), also=("reference", "parser")),
        # The family that only the second stack's vLLM has.
        Group(
            "plugin-0.13",
            "vlm-0.13",
            ("tests/plugin/test_families.py", "tests/plugin/test_family_shapes.py"),
            also=("reference", "parser"),
            options=("-k", "hunyuan_vl"),
        ),
        Group("tools", "client", ("tests/tools",), also=("parser",)),
        # Ray, and clusters of several nodes on this machine.
        Group("corpus", "corpus", ("tests/corpus",), also=("s3", "vlm")),
        Group("reference", "reference", ("tests/reference",)),
        # The real torch_npu on simulated CANN libraries, which are compiled when the tests start.
        Group("npu", "npu", ("tests/npu/tower",), system_files=COMPILER),
        # A process of its own, since vLLM keeps the first platform that it finds. The index has vllm-ascend 0.13.0rc1;
        # 6664a4e is there where VLLM_ASCEND_SOURCE names it.
        Group("npu-0.11", "npu", ("tests/npu/vllm_ascend",), system_files=COMPILER),
        Group("npu-0.13", "npu-0.13", ("tests/npu/vllm_ascend",), system_files=COMPILER),
        # The layout models: Paddle's engine, OpenVINO and the layout server find the same blocks.
        Group("layout", "parser", ("tests/layout",), also=("reference", "vlm"), system_files=DRAWING),
        Group("e2e", "tools", ("tests/e2e",), also=("vlm", "parser")),
        # Without pytest's capture: they take minutes, and each stage says what it took.
        Group("images", "tools", ("tests/images/cpu",), engine=True, options=("-s", "-v")),
        Group("images-ascend", "tools", ("tests/images/ascend",), engine=True, builds=True, options=("-s", "-v")),
        # More than one node: rendered pods, a Ray cluster's among them, and two compose projects.
        Group(
            "images-nodes",
            "corpus",
            ("tests/images/nodes",),
            also=("tools", "s3"),
            system_files=(("/usr/sbin/haproxy", "haproxy"),),
            engine=True,
            options=("-s", "-v"),
        ),
        # The workshop: what made or judged something once (workshop/README.md).
        Group("training", "reference", ("tests/workshop/demo_training/vlm",), system_files=DRAWING),
        Group(
            "drawing",
            "parser",
            ("tests/workshop/demo_training",),
            also=("reference",),
            system_files=DRAWING + BROWSER,
            options=("--ignore=tests/workshop/demo_training/vlm",),
        ),
        Group("chaos", "tools", ("tests/workshop/chaos/test_judge.py",)),
        Group("images-chaos", "tools", ("tests/workshop/chaos/test_bundle.py",), engine=True, options=("-s", "-v")),
    )
}

# `scripts/test.sh unit`: what of these groups is quick.
UNIT = ("bundle", "parser", "jobs", "plugin", "tools", "reference")
UNIT_MARKERS = "unit"
