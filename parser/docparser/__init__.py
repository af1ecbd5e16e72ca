# SPDX-License-Identifier: Apache-2.0
"""The document parser: images and PDFs in, Markdown and JSON out, over PaddleX's ``/layout-parsing`` contract."""
