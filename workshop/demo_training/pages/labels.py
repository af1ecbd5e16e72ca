# SPDX-License-Identifier: Apache-2.0
"""The 25 block classes of PP-DocLayoutV2 in the published order.

The order is an interface: PaddleX's pipeline configuration holds thresholds and merge modes by class index
(``label_list`` of the published ``inference.yml``; PaddleX ``PaddleOCR-VL.yaml``).
"""

LABELS = (
    "abstract",
    "algorithm",
    "aside_text",
    "chart",
    "content",
    "display_formula",
    "doc_title",
    "figure_title",
    "footer",
    "footer_image",
    "footnote",
    "formula_number",
    "header",
    "header_image",
    "image",
    "inline_formula",
    "number",
    "paragraph_title",
    "reference",
    "reference_content",
    "seal",
    "table",
    "text",
    "vertical_text",
    "vision_footnote",
)

#: Classes that the demo pages contain and the demo layout model therefore knows.
DRAWN = ("text", "paragraph_title", "doc_title", "table", "image", "chart", "header", "footer", "number", "footnote")

#: Classes that PaddleX leaves out of the Markdown by default.
MARGINAL = ("header", "footer", "number", "footnote", "header_image", "footer_image", "aside_text")
