# SPDX-License-Identifier: Apache-2.0
"""A document by the OpenAI API: ``/v1/chat/completions`` and ``/v1/models``."""
