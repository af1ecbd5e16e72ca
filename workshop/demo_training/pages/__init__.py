# SPDX-License-Identifier: Apache-2.0
"""Whole document pages drawn with exact ground truth: blocks, labels, reading order, text."""
