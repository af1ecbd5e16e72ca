# SPDX-License-Identifier: Apache-2.0
"""Launcher of the VLM server: finds and checks the weights, then becomes `vllm serve` with models.yaml's arguments."""
