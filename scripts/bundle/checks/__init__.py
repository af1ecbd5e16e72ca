# SPDX-License-Identifier: Apache-2.0
"""The checks of scripts/preflight.sh, one file for each part of a machine."""
