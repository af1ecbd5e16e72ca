# SPDX-License-Identifier: Apache-2.0
"""Logits of our plugin inside vLLM, for the accuracy tool: runs in the plugin's environment."""
