# SPDX-License-Identifier: Apache-2.0
"""Bringing weights to a machine."""
