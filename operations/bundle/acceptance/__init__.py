# SPDX-License-Identifier: Apache-2.0
"""The first hour on a node: steps in order, one report, one archive (scripts/acceptance.sh)."""
