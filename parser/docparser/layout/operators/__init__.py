# SPDX-License-Identifier: Apache-2.0
"""Each operation of Paddle in OpenVINO's nodes. Names and meanings are those of Paddle's ops.yaml."""

from docparser.layout.operators import arithmetic, layers, shapes
from docparser.layout.operators.call import Translator
from paddle_program import operators

TABLE: dict[str, Translator] = {
    **operators.TABLE,
    **arithmetic.ELEMENTWISE,
    **arithmetic.REDUCTIONS,
    **shapes.CONSTANTS,
    **shapes.SHAPES,
    **shapes.INDEXING,
    **layers.LAYERS,
    **layers.IMAGES,
}
