# SPDX-License-Identifier: Apache-2.0
"""VLLM_ASCEND_IMAGE: the kernels of an image of upstream's layout are taken, and no compiler runs.

The image is simulated: the compiled wheel of this stack's stage `kernels`, unpacked where upstream's images have their
checkout, with files that upstream's build leaves. Upstream's own image was not tried.
"""

from __future__ import annotations

from pathlib import Path

import atlas
from tests.images.ascend.compiled import DEVICE_TYPES, RECORD
from tests.images.ascend.conftest import CANN, Built, build

NAME = "vllm-ascend-simulated:compiled"
# The checkout after `pip install -e`: the sources, and what was compiled beside the Python files.
UPSTREAM = """FROM {kernels} AS kernels
FROM {cann}
COPY --from=kernels /src/vllm-ascend /vllm-workspace/vllm-ascend
RUN --mount=type=bind,from=kernels,source=/dist,target=/dist \\
    python3.11 -m zipfile -e /dist/*.whl /vllm-workspace/vllm-ascend
# What upstream's own build leaves there, where a patch of ours has a file for builds.
RUN mkdir -p /vllm-workspace/vllm-ascend/csrc/third_party/makeself && \
    for name in makeself makeself-header; do \
        echo upstream >/vllm-workspace/vllm-ascend/csrc/third_party/makeself/$name.sh; done
"""


def test_nothing_is_compiled(ascend: Built, kernels: Built, ascend_wheels: Path, tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(UPSTREAM.format(kernels=kernels.image, cann=ascend.project.env["CANN_IMAGE"]))
    ascend.project.docker("buildx", "build", "--load", "--tag", NAME, str(tmp_path), timeout=900)
    contexts = {"wheels": ascend_wheels, "vllm_ascend": CANN / "catlass"}
    image = build(ascend.project, ascend.stack, "platform", contexts, arguments={"VLLM_ASCEND_IMAGE": NAME})
    taken = Built(ascend.project, ascend.stack, "platform", image)
    code = "from vllm_ascend._build_info import __device_type__ as kind; print(kind)"
    assert taken.python(code) == DEVICE_TYPES[atlas.DEFAULT.key][ascend.stack.name]
    assert "No such file or directory" in taken.inside("ls", RECORD, check=False)
