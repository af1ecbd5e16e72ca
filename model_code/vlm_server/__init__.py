# SPDX-License-Identifier: Apache-2.0
"""Launcher of the VLM server: finds the weights, checks them, and becomes `vllm serve` with the arguments of models.yaml."""
