# SPDX-License-Identifier: Apache-2.0
"""The documents under tests/data, drawn with their ground truth from the texts in tests/data/pages.yaml."""
