# SPDX-License-Identifier: Apache-2.0
"""Faults that are planted one at a time, to see whether a test finds each."""
