# SPDX-License-Identifier: Apache-2.0
"""How each operation of Paddle is said in OpenVINO's nodes. Names and meanings are those of Paddle's ops.yaml."""

from docparser.layout.operators import arithmetic, constants, images, indexing, layers, reductions, shapes
from docparser.layout.operators.call import Translator

TABLE: dict[str, Translator] = {
    **constants.TABLE,
    **arithmetic.TABLE,
    **reductions.TABLE,
    **shapes.TABLE,
    **indexing.TABLE,
    **layers.TABLE,
    **images.TABLE,
}
