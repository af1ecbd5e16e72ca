# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR-VL-0.9B: dynamic-resolution vision tower, 2x2 merging projector, ERNIE-4.5-0.3B with 3-D mRoPE.

Architecture: arXiv 2510.14528; weight names and configuration keys: the published checkpoint
PaddlePaddle/PaddleOCR-VL; numerical reference: transformers >= 5, ``models/paddleocr_vl``.
"""
