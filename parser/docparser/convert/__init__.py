# SPDX-License-Identifier: Apache-2.0
"""A result in other formats: Markdown, HTML, workbook, Word file, searchable PDF, chunks, ZIP."""
