#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run by Dockerfile.ascend: patch vllm-ascend, compile it for SOC_VERSION, and leave its wheel:
# build_kernels.sh SOURCES TREE OUTPUT, where TREE has operations/bundle/image_build and common.
set -euo pipefail

sources="$1" tree="$2" output="$3"
tools="$tree/operations/bundle/image_build"

fail() {
    echo "error: $1" >&2
    exit 2
}

[[ -f "$sources/setup.py" ]] ||
    fail "the build context vllm_ascend is empty; set VLLM_ASCEND_SOURCE to a folder, or build where git reaches"

# git and CMake keep settings below HOME, which has no folder while the image is built.
HOME="$(mktemp -d)"
# Before CANN's files: ATB's asks this Python's torch for its C++ ABI, and upstream's setup.py calls `python3`.
export HOME PATH="/opt/venv/vlm/bin:$PATH" TORCH_DEVICE_BACKEND_AUTOLOAD=0
# Upstream's setup takes short names (910c), and then leaves out the operators of A3 without a word.
PYTHONPATH="$tree/operations:$tree/common" python3 -m bundle.image_build.kernel_wheel chip

patches="$tools/patches/${VLLM_ASCEND_VERSION:-none}"
"$tools/patch_sources.sh" "$sources" "$patches" "$patches/build"

# shellcheck source=operations/bundle/image_build/cann_environment.sh
source "$tools/cann_environment.sh"
# Again: CANN's files put other folders first.
export PATH="/opt/venv/vlm/bin:$PATH"
export SOC_VERSION COMPILE_CUSTOM_KERNELS=1
# Sources without their git history have no version of their own.
export SETUPTOOLS_SCM_PRETEND_VERSION="${VLLM_ASCEND_PACKAGE_VERSION:-0.0.0}"
[[ -n "${MAX_JOBS:-}" ]] || unset MAX_JOBS

# What upstream's setup.py asks, and whose failure it does not see.
location="$(python3 -m pip show torch-npu | awk '/^Location:/ {print $2}')" || location=
[[ -d "$location/torch_npu/include" ]] ||
    fail "'python3 -m pip show torch-npu' finds no torch_npu; expected pip and torch-npu in /opt/venv/vlm"
if [[ "$(python3 -c 'import torch; print(bool(torch.version.cuda))')" == True ]]; then
    TORCH_CMAKE_PREFIX="$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')"
    export TORCH_CMAKE_PREFIX Torch_ROOT="$tools/cmake"
fi

/opt/venv/bootstrap/bin/uv build --wheel --no-build-isolation --offline --no-cache --python /opt/venv/vlm/bin/python \
    --out-dir "$output" "$sources"

PYTHONPATH="$tree/operations:$tree/common" python3 -m bundle.image_build.kernel_wheel check "$output"/*.whl
ls -l "$output"
