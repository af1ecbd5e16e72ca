# SPDX-License-Identifier: Apache-2.0
"""What each operation of Paddle is in PyTorch. Names and meanings are those of Paddle's ops.yaml."""

from layout_server.operators import arithmetic, constants, images, layers, places, reductions, shapes
from layout_server.operators.call import Operator

TABLE: dict[str, Operator] = {
    **constants.TABLE,
    **arithmetic.TABLE,
    **reductions.TABLE,
    **shapes.TABLE,
    **places.TABLE,
    **layers.TABLE,
    **images.TABLE,
}
