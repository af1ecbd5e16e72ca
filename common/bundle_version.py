# SPDX-License-Identifier: Apache-2.0
"""The bundle's version, by semantic versioning. Everything that names it follows: `scripts/release.sh version 0.4.0`
writes it here and in the files that cannot read Python (operations/bundle/release/version.py, decision 0421)."""

VERSION = "0.3.0"
