# SPDX-License-Identifier: Apache-2.0
"""One Paddle program that uses every operation that the layout model's translator knows.

Run in the environment `parser`: `python -m tests.support.operator_program FOLDER`. Paddle builds the program, so names,
attributes and order of inputs are its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import paddle
from paddle import Tensor, nn
from paddle.nn import functional
from paddle.static import InputSpec

#: [1, 4, 6, 8] between -3 and 3, without two equal values; [5, 7] between 0 and 1.
INPUTS = {"maps": (1, 4, 6, 8), "table": (5, 7)}


def draw(seed: int = 3) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    maps = np.linspace(-3, 3, 192, dtype=np.float32)
    random.shuffle(maps)
    return {"maps": maps.reshape(INPUTS["maps"]), "table": random.random(INPUTS["table"], np.float32)}


class Everything(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(4, 6, 3, 2, 1)
        self.groups = nn.Conv2D(4, 8, 3, padding=[1, 2], dilation=2, groups=2)
        self.depthwise = nn.Conv2D(4, 4, (5, 3), padding="SAME", groups=4)
        self.norm = nn.BatchNorm2D(4)
        self.rows = nn.LayerNorm([7])
        self.planes = nn.LayerNorm([6, 8], weight_attr=False, bias_attr=False)
        self.words = nn.Embedding(9, 3, padding_idx=2)
        self.drop = nn.Dropout(0.3)
        for number, part in enumerate((self.conv, self.groups, self.depthwise, self.norm, self.rows, self.words)):
            for place, (name, held) in enumerate(part.state_dict().items()):
                values = np.random.default_rng(10 * number + place).random(held.shape).astype(np.float32)
                held.set_value(values + 0.5 if "variance" in name else values - 0.3)
        self.eval()

    def forward(self, maps: Tensor, table: Tensor) -> list[Tensor]:
        groups = (self.pointwise, self.reduced, self.moved, self.places, self.layers, self.written)
        return [result for group in groups for result in group(maps, table)]

    def pointwise(self, maps: Tensor, table: Tensor) -> Iterator[Tensor]:
        simple: list[Callable[[Tensor], Tensor]] = [
            paddle.abs, paddle.ceil, paddle.cos, paddle.exp, paddle.floor, functional.relu, functional.sigmoid,
            functional.silu, paddle.sin, paddle.tanh, functional.gelu,
        ]  # fmt: skip
        yield from (each(maps) for each in simple)
        yield from (functional.gelu(maps, approximate=True), paddle.log(table), paddle.sqrt(table), self.drop(maps))
        row = table[:1]
        yield from (table + row, table / (row + 1), table**row, paddle.maximum(table, row), paddle.minimum(table, row))
        yield from (table * row, table - row, paddle.remainder(maps, paddle.full([], 0.7)), maps // 0.7)
        whole = (maps * 9).astype("int64")
        yield from (whole % 4, whole // 4, whole.astype("float32"), whole.astype("int32"), maps.astype("bool"))
        yield from (maps == maps.floor(), table >= row, table > row, table <= row, table < row, table != row)
        high, low = maps > 1, maps < -1
        yield from (high.logical_and(low), high.logical_or(low), high.logical_not(), high & low, whole & whole.flip(3))
        yield from (maps.clip(-1, 2), maps * 3 + 2, whole * 3 - 1, paddle.scale(maps, 2.0, 0.5, bias_after_scale=False))
        yield paddle.where(high, maps, -maps)
        yield from (maps.detach() + 1, paddle.where(high, paddle.zeros_like(maps), paddle.full_like(maps, 2.5)))

    def reduced(self, maps: Tensor, table: Tensor) -> Iterator[Tensor]:
        yield from (maps.max(1), maps.min([2, 3], keepdim=True), maps.mean(-1), maps.sum([0, 2]), table.prod(1))
        yield from (maps.mean(), (maps > 1).sum(3), (maps * 4).astype("int32").sum(1), maps.max())
        yield from (maps.argmax(1), maps.argmax(3, keepdim=True), (maps > 2).any([-2, -1]), (maps > 2.9).any())
        yield from (*paddle.topk(maps, 3, axis=3), *paddle.topk(maps, 2, axis=1, largest=False))
        yield from (paddle.argsort(table, axis=1), paddle.argsort(table, axis=0, descending=True))
        yield from (maps.cumsum(2), paddle.cumsum((maps > 0).astype("int64"), 3), functional.softmax(maps, 1))

    def moved(self, maps: Tensor, table: Tensor) -> Iterator[Tensor]:
        yield from (maps.reshape([0, -1, 8]), maps.flatten(1, 2), maps.transpose([0, 2, 3, 1]), maps.unsqueeze([1, 4]))
        yield from (
            maps.squeeze(0),
            maps[:, :1].squeeze(),
            table[:, None].expand([-1, 3, 7]),
            table[:1].expand_as(table),
        )
        yield from paddle.broadcast_tensors([table[:1], table])
        yield from (table.tile([2, 3]), maps.flip([1, 3]), maps[:, 1:3, -2], maps[:, ::2, 1:6:2], maps[:, 3, 2:4])
        yield from (
            paddle.concat([maps, maps * 2], 1),
            paddle.stack([table, table + 1], -1),
            paddle.stack([table] * 3, 1),
        )
        yield from (*paddle.split(table, [2, -1], 1), *paddle.split(maps, 2, 3), *paddle.unbind(table[:, :3], 1))
        yield from (paddle.tril(table, -1), paddle.triu(table, 1), paddle.tril(table))
        rows = paddle.shape(table)[0]
        yield from (paddle.arange(rows).astype("float32"), paddle.arange(0.5, 4, 0.5), table.reshape([rows, -1]) + 1)
        yield from paddle.meshgrid(paddle.arange(3, dtype="float32"), paddle.arange(4, dtype="float32"))
        yield paddle.full([paddle.shape(table)[1]], 7, dtype="int32")

    def places(self, maps: Tensor, table: Tensor) -> Iterator[Tensor]:
        order = paddle.argsort(table, axis=1)
        at = paddle.to_tensor([4, 0, 2])
        yield from (table.gather(at), table.gather(at, axis=1), table.index_select(at, 1))
        yield from (paddle.take_along_axis(table, order[:, :3], 1), self.words(order))
        pairs = paddle.stack([order[:, 0] % 5, order[:, 1]], -1)
        yield from (paddle.gather_nd(table, pairs), functional.embedding(order, paddle.to_tensor(draw()["table"].T)))

    def layers(self, maps: Tensor, table: Tensor) -> Iterator[Tensor]:
        yield from (self.conv(maps), self.groups(maps), self.depthwise(maps), self.norm(maps), self.rows(table))
        yield from (self.planes(maps), table @ table.T, paddle.matmul(table, table, transpose_x=True), maps @ maps.mT)
        yield paddle.bmm(maps[0], maps[0].mT)
        yield from (functional.max_pool2d(maps, 2, 1, ceil_mode=True), functional.max_pool2d(maps, (5, 3), 1, (2, 1)))
        yield from (functional.max_pool2d(maps, 3, 2, 1, ceil_mode=True), functional.avg_pool2d(maps, 3, 2, 1))
        yield functional.avg_pool2d(maps, 3, 2, 1, exclusive=False)
        yield functional.interpolate(maps, scale_factor=2, mode="nearest")
        yield functional.interpolate(maps, scale_factor=2, mode="bilinear")
        yield functional.interpolate(maps, size=[9, 5], mode="bilinear")
        yield from (functional.pad(maps, [1, 2, 3, 4], value=0.5), functional.pixel_unshuffle(maps, 2))
        grid = maps[:, :2].transpose([0, 2, 3, 1]) / 2.5
        for edge in ("zeros", "border"):
            yield functional.grid_sample(maps, grid, align_corners=False, padding_mode=edge)
        yield functional.grid_sample(maps, grid * 0.9, mode="bilinear", align_corners=True)

    def written(self, maps: Tensor, table: Tensor) -> Iterator[Tensor]:
        first, second, third = table + 1, table + 2, table + 3
        first[:, 2] = 0.0
        second[1:4, ::2] = table[1:4, :4] * 10
        third[third > 3.5] = 9.0
        fourth = table + 4
        fourth[paddle.arange(5).unsqueeze(1), paddle.argsort(table, axis=1)[:, :2]] = paddle.to_tensor([[1.0, 2.0]])
        yield from (first, second, third, fourth)


def main(folder: str) -> None:
    paddle.seed(1)
    specs = [InputSpec(list(shape), "float32", name) for name, shape in INPUTS.items()]
    paddle.jit.save(paddle.jit.to_static(Everything(), input_spec=specs, full_graph=True), f"{folder}/inference")


if __name__ == "__main__":
    main(sys.argv[1])
