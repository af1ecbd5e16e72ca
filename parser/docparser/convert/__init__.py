# SPDX-License-Identifier: Apache-2.0
"""A result in other formats: Markdown, HTML, workbook, ZIP. Imports nothing from the rest of docparser."""
