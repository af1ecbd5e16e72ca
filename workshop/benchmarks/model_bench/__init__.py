# SPDX-License-Identifier: Apache-2.0
"""Speed of PaddleOCR-VL side by side: ours, the one inside vLLM, transformers. Run by bench_model.py.

Each implementation lives in a process of its own (``python -m model_bench.child``), since they cannot be installed
together. Weights, inputs and outputs are exchanged as safetensors files.
"""
