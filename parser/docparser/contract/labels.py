# SPDX-License-Identifier: Apache-2.0
"""The classes of PP-DocLayoutV2, in the order of its ``label_list``: thresholds and merge modes name them by number."""

LABELS = (
    "abstract", "algorithm", "aside_text", "chart", "content", "display_formula", "doc_title",
    "figure_title", "footer", "footer_image", "footnote", "formula_number", "header", "header_image",
    "image", "inline_formula", "number", "paragraph_title", "reference", "reference_content", "seal",
    "table", "text", "vertical_text", "vision_footnote",
)  # fmt: skip
