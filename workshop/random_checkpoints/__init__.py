# SPDX-License-Identifier: Apache-2.0
"""Models of random weights, and their logits by transformers; both run in the ``reference`` environment."""
