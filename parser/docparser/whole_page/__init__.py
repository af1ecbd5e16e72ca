# SPDX-License-Identifier: Apache-2.0
"""A page that the VLM reads whole, without a layout model: its prompt, and what its answer makes of the page."""
