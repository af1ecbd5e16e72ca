#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run by Dockerfile.ascend: load what was compiled for vllm-ascend, in the environment of PYTHON: load_kernels.sh PYTHON.
# vllm-ascend itself writes a warning where its extension does not load. Every replica of the stacks before 0.23.0 then
# fails while it captures its first graph, by the first of the operators that are asked for here. 0.23.0 has the second
# in its place, for the norms of the language model; on a 310P it has other operators, which this bundle's models do
# not call.
set -euo pipefail

python="$1"
# CANN writes logs, and torch_npu settings, below HOME, which has no folder while the image is built.
HOME="$(mktemp -d)"
# ATB's settings ask `python3` for torch's C++ ABI.
export HOME PATH="${python%/*}:$PATH"
# shellcheck source=operations/bundle/image_build/cann_environment.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/cann_environment.sh"

status=0
said="$("$python" -c 'import torch, torch_npu, vllm_ascend.vllm_ascend_C
own = torch.ops._C_ascend
getattr(own, "npu_add_rms_norm_bias", None) or getattr(own, "npu_causal_conv1d_310", None) or own.weak_ref_tensor' 2>&1)" || status=$?
rm -rf "$HOME"
if ((status > 128)); then
    # Without a driver a library may give up; only a refusal to load says that it was built wrongly.
    echo "WARNING: loading the compiled extension ended by signal $((status - 128)), on a machine without a driver;" \
        "scripts/acceptance.sh loads it on each die"
elif ((status)); then
    echo "error: the compiled extension of vllm-ascend does not load: $(tail -n 1 <<<"$said")" >&2
    exit 2
else
    echo "the compiled extension of vllm-ascend loads"
fi
