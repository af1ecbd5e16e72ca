# SPDX-License-Identifier: Apache-2.0
"""The grid of a table's picture, found without a model. Needs NumPy, which ``places`` does without."""
