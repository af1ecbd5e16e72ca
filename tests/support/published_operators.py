# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators that the layout server calls for the published architectures.

The environments of torch_npu have no Paddle, which makes the program: tests/layout compares the list with
a program's plan, tests/npu with torch_npu's kernels.
"""

from __future__ import annotations

V2 = frozenset(
    """
    _softmax.default _to_copy.default _unsafe_view.default abs.default add.Tensor
    amax.default argmax.default bitwise_and.Tensor bmm.default cat.default
    clone.default constant_pad_nd.default convolution.default cos.default cumsum.default
    div.Tensor div.Tensor_mode expand.default flip.default floor.default
    gather.default ge.Tensor gelu.default grid_sampler_2d.default index.Tensor
    index_put.default index_select.default le.Tensor log.default lt.Tensor
    max_pool2d_with_indices.default maximum.default minimum.default mm.default mul.Tensor
    native_layer_norm.default ne.Scalar ne.Tensor permute.default relu.default
    remainder.Tensor repeat.default scatter.src sigmoid.default silu.default
    sin.default slice.Tensor sort.stable split.Tensor split_with_sizes.default
    squeeze.dims stack.default sub.Tensor sum.dim_IntList unbind.int
    unsqueeze.default view.default where.self
    """.split()
)
V3 = V2.union("amin.default gt.Tensor upsample_bilinear2d.default".split()).difference(
    """
    abs.default bitwise_and.Tensor cos.default cumsum.default div.Tensor_mode ge.Tensor index_select.default le.Tensor
    lt.Tensor ne.Scalar ne.Tensor remainder.Tensor sin.default split.Tensor
    """.split()
)
PUBLISHED = {"PP-DocLayoutV2": V2, "PP-DocLayoutV3": V3}
