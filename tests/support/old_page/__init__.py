# SPDX-License-Identifier: Apache-2.0
"""The path before this one, for one commit: tests/support/both_paths.py compares the two."""
