# SPDX-License-Identifier: Apache-2.0
"""Callbacks: the service tells an address that the client named how its job ended (Standard Webhooks 1.0)."""
