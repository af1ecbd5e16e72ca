# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL (arXiv 2409.12191), images and video. The model is vLLM's own; its inputs are checked here."""
