# SPDX-License-Identifier: Apache-2.0
"""Tools around the independent implementation, transformers >= 5; they run in the ``reference`` environment."""
