# SPDX-License-Identifier: Apache-2.0
"""Each operation of Paddle in PyTorch. Names and meanings are those of Paddle's ops.yaml."""

from layout_server.operators import arithmetic, indexing, layers, shapes
from layout_server.operators.call import Operator
from paddle_program import operators

TABLE: dict[str, Operator] = {
    **operators.TABLE,
    **arithmetic.TABLE,
    **shapes.TABLE,
    **indexing.TABLE,
    **layers.TABLE,
}
