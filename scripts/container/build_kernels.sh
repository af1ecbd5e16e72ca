#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run by Dockerfile.ascend: compile vllm-ascend for SOC_VERSION and leave its wheel: build_kernels.sh SOURCES OUTPUT
set -euo pipefail

sources="$1" output="$2"
toolkit=/usr/local/Ascend/ascend-toolkit

# The short names (910c) would pass vllm-ascend's setup and then leave out the operators of A3 without a word.
[[ "$SOC_VERSION" =~ ^ascend(910_93|910b|310p) ]] || {
    echo "error: SOC_VERSION is '$SOC_VERSION'; expected the chip's full name, like ascend910_9391 for A3" >&2
    exit 2
}
[[ -f "$sources/setup.py" || -f "$sources/pyproject.toml" ]] || {
    echo "error: the build context vllm_ascend is empty; set VLLM_ASCEND_SOURCE to a folder, or build where git reaches" >&2
    exit 2
}

set +u
# shellcheck source=/dev/null
source "$toolkit/set_env.sh"
# shellcheck source=/dev/null
source /usr/local/Ascend/nnal/atb/set_env.sh
set -u
# libascend_hal.so comes with the driver; the toolkit has a stand-in to link against.
machine="$(uname -m)"
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$toolkit/latest/$machine-linux/devlib"
export SOC_VERSION COMPILE_CUSTOM_KERNELS=1 TORCH_DEVICE_BACKEND_AUTOLOAD=0
# Sources without their git history have no version of their own.
export SETUPTOOLS_SCM_PRETEND_VERSION="${VLLM_ASCEND_PACKAGE_VERSION:-0.0.0}"
[[ -n "${MAX_JOBS:-}" ]] || unset MAX_JOBS
export PATH="/opt/venv/vlm/bin:$PATH"

/opt/venv/bootstrap/bin/uv build --wheel --no-build-isolation --offline --no-cache --python /opt/venv/vlm/bin/python \
    --out-dir "$output" "$sources"
ls -l "$output"
