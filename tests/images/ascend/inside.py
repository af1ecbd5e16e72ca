# SPDX-License-Identifier: Apache-2.0
"""Runs in an image, in the environment of the VLM: the last line that it prints is JSON of what it found there."""

import importlib
import importlib.metadata
import importlib.util
import json

# Before vLLM, which may put something in its place.
TRITON = importlib.util.find_spec("triton") is not None
# What CANN's Python parts import.
FOR_CANN = "attr Cython decorator sympy cffi yaml pathlib2 psutil google.protobuf scipy requests absl ml_dtypes tornado"

for name in FOR_CANN.split():
    importlib.import_module(name)

torch, torch_npu, vllm = map(importlib.import_module, ("torch", "torch_npu", "vllm"))
found = {
    "torch": torch.__version__,
    "torch_npu": torch_npu.__version__,
    "vllm": vllm.__version__,
    "transformers": importlib.metadata.version("transformers"),
    "cuda": torch.version.cuda,
    "triton": TRITON,
}
if importlib.util.find_spec("vllm_ascend"):  # not yet in the stage `vllm`
    importlib.import_module("vllm.plugins").load_general_plugins()
    entry = vllm.ModelRegistry.models["PaddleOCRVLForConditionalGeneration"]
    found |= {
        "platform": type(importlib.import_module("vllm.platforms").current_platform).__name__,
        "devices": torch.npu.device_count(),
        "model": entry.module_name,
        "device_type": importlib.import_module("vllm_ascend._build_info").__device_type__,
    }
print(json.dumps(found))
