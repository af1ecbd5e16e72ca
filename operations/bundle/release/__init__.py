# SPDX-License-Identifier: Apache-2.0
"""A release: its version in every file that names it, and the files that a site gets (scripts/release.sh)."""
