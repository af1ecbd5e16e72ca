# SPDX-License-Identifier: Apache-2.0
"""Calls of the VLM server."""
