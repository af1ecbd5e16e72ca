# SPDX-License-Identifier: Apache-2.0
"""A worker process: pages through PaddleOCR's pipeline. The only package that imports Paddle."""
