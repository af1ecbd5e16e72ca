# SPDX-License-Identifier: Apache-2.0
"""What a PDF's page says of its own text, and whether that is true. ``convert.text_layer`` writes text; this reads it.

``pdfium_text`` runs in the renderer, beside the picture of the page; the worker asks ``page_text.OwnText``.
"""
