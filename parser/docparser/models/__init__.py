# SPDX-License-Identifier: Apache-2.0
"""Readiness: whether both models are there, and which weights they are."""
