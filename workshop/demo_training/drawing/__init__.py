# SPDX-License-Identifier: Apache-2.0
"""Text on paper with exact ground truth: fonts, words, and blocks of lines."""
