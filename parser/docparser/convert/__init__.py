# SPDX-License-Identifier: Apache-2.0
"""A result in other formats: Markdown, HTML, spreadsheet, ZIP."""
