# SPDX-License-Identifier: Apache-2.0
"""HunyuanOCR (arXiv 2511.19575), in vLLM since 0.12.0. The model is vLLM's own; its inputs are checked here."""
