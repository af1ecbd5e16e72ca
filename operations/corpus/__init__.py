# SPDX-License-Identifier: Apache-2.0
"""A corpus of documents, parsed on Ray: scripts/parse_corpus.py (docs/corpus.md)."""
