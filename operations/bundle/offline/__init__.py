# SPDX-License-Identifier: Apache-2.0
"""Carry the bundle to a machine without network: one archive with images, scripts, the Compose plugin and weights."""
