# SPDX-License-Identifier: Apache-2.0
"""Training, folding and export of the layout model, small: it learns, resumes, and becomes a loadable model."""

import json
import re

import numpy as np
import paddle
import pytest
import yaml

from demo_training.layout.export import export
from demo_training.layout.inference_graph import INPUT, KEPT, LayoutGraph
from demo_training.pages.documents import draw_page
from demo_training.pages.labels import DRAWN, LABELS
from demo_training.pages.shelf import shelf_pages


def test_smoke(tmp_path, in_torch, in_paddle):
    """A few steps on a few pages: the loss falls, a second call goes on from the first, the export can be run."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for seed in range(3):
        page = draw_page(seed, "train")
        page.image.save(shelf / f"page-{seed}.png")
        blocks = [{"label": block.label, "bbox": block.bbox} for block in page.blocks]
        # Of the last one nobody knows the blocks.
        (shelf / f"page-{seed}.json").write_text(json.dumps({"blocks": blocks if seed < 2 else None}))
    assert [name.name for name in shelf_pages(shelf)] == ["page-0", "page-1"]
    arguments = ["--out", tmp_path, "--pages", 12, "--batch", 2, "--threads", 2, "--shelf", shelf]
    log = in_torch("demo_training.layout.train", *arguments, "--steps", 15)
    first = [float(value) for value in re.findall(r"heat ([\d.]+) distance ([\d.]+) edge ([\d.]+)", log)[-1]]
    log = in_torch("demo_training.layout.train", *arguments, "--steps", 50)
    assert "resumed at step 15" in log
    last = [float(value) for value in re.findall(r"heat ([\d.]+) distance ([\d.]+) edge ([\d.]+)", log)[-1]]
    assert sum(last) < 0.75 * sum(first)
    assert {path.parent.name for path in tmp_path.glob("pages/*/*.npz")} == {"train", "shelf"}

    weights = tmp_path / "weights.npz"
    in_torch("demo_training.layout.fold", tmp_path / "last.pt", weights)
    in_paddle("demo_training.layout.export", weights, tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "inference.json",
        "inference.pdiparams",
        "inference.yml",
    }
    with np.load(weights) as alone:
        np.savez(tmp_path / "zeros.npz", **{name: np.zeros_like(value) for name, value in alone.items()})
        options = ["--earlier", tmp_path / "zeros.npz", "--share", 0.25]
        in_torch("demo_training.layout.fold", tmp_path / "last.pt", tmp_path / "mean.npz", *options)
        with np.load(tmp_path / "mean.npz") as both:
            assert all(np.allclose(both[name], 0.75 * value) for name, value in alone.items())
    metadata = yaml.safe_load((tmp_path / "model" / "inference.yml").read_text())
    assert metadata["label_list"] == list(LABELS) and len(LABELS) == 25

    # And back: the exported model's weights, and a checkpoint that training goes on from where it was.
    in_paddle("demo_training.layout.unexport", tmp_path / "model", tmp_path / "again.npz")
    with np.load(weights) as given, np.load(tmp_path / "again.npz") as found:
        assert set(given) == set(found) and all(np.array_equal(given[name], found[name]) for name in given)
    in_torch("demo_training.layout.unfold", weights, tmp_path / "last.pt", "--pages", 4)
    log = in_torch("demo_training.layout.train", *arguments, "--steps", 2, "--rate", 1e-5)
    assert "resumed at step 0" in log


def test_varied_pages_keep_their_truth(tmp_path, in_torch):
    """Blanked blocks leave no ink and no box; on a smaller page each box still bounds its ink."""
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import numpy as np\n"
        "from demo_training.layout.targets import Sample\n"
        "from demo_training.layout.variations import shrunk, thinned\n"
        "image = np.full((800, 800), 240, np.uint8)\n"
        "boxes = np.array([[100, 60 + 70 * n, 500, 110 + 70 * n] for n in range(8)], np.float32)\n"
        "for left, top, right, bottom in boxes.astype(int):\n"
        "    image[top + 4 : bottom - 4, left + 4 : right - 4] = 30\n"
        "page = Sample(image, boxes, np.arange(8))\n"
        "rng = np.random.default_rng(3)\n"
        "fewer = thinned(page, rng)\n"
        "print(len(fewer.boxes), int((fewer.image < 100).sum()) // (392 * 42), (image < 100).sum() // (392 * 42))\n"
        "for _ in range(20):\n"
        "    small = shrunk(fewer, rng)\n"
        "    inked = small.image < 100\n"
        "    left = inked.sum()\n"
        "    for x1, y1, x2, y2 in small.boxes.round().astype(int):\n"
        "        assert inked[y1 : y2 + 1, x1 : x2 + 1].any(), 'a box without ink'\n"
        "        inked[y1 : y2 + 1, x1 : x2 + 1] = False\n"
        "    assert 0.5 * (fewer.image < 100).sum() < left and not inked.any(), 'ink outside of all boxes'\n"
    )
    boxes, inked, before = map(int, in_torch(probe).split())
    assert before == 8 and boxes == inked < 8


def test_unfolded_weights_compute_what_the_folded_did(tmp_path, in_torch):
    """In evaluation, and in training as well, where the norms use the statistics of the batch."""
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import torch\n"
        "from demo_training.layout.fold import fold\n"
        "from demo_training.layout.network import LayoutNetwork\n"
        "from demo_training.layout.unfold import unfold\n"
        "torch.manual_seed(3)\n"
        "network, images = LayoutNetwork(), torch.rand(4, 1, 800, 800)\n"
        "network.train(); network(images); network.eval()\n"
        "again = unfold(fold(network.state_dict()), images)\n"
        "with torch.no_grad():\n"
        "    wanted, found, training = network(images), again(images), again.train()(images)\n"
        "for outputs in (found, training):\n"
        "    print(max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(outputs, wanted)))\n"
    )
    evaluated, trained = map(float, in_torch(probe).split())
    assert evaluated < 1e-4 and trained < 1e-2


def test_both_frameworks_agree(tmp_path, in_torch):
    """The Paddle graph computes what the torch network does, with random weights and batch norms off their start."""
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import sys, numpy as np, torch\n"
        "from demo_training.layout.fold import fold\n"
        "from demo_training.layout.network import LayoutNetwork, edge_profiles\n"
        "torch.manual_seed(3)\n"
        "network = LayoutNetwork()\n"
        "image = torch.rand(2, 1, 800, 800)\n"
        "network.train(); network(image); network.eval()\n"
        "with torch.no_grad():\n"
        "    heat, distances, edges = network(image)\n"
        "    boxes = torch.tensor([[100.0, 90.0, 400.0, 160.0], [20.5, 300.0, 780.0, 700.0]])\n"
        "    logits, places = edge_profiles(edges[0], boxes)\n"
        "np.savez(sys.argv[1], **fold(network.state_dict()))\n"
        "np.savez(sys.argv[2], image=image, heat=heat, distances=distances, edges=edges, boxes=boxes,\n"
        "         best=torch.gather(places, 2, logits.argmax(2, keepdim=True))[..., 0])\n"
    )
    in_torch(probe, tmp_path / "weights.npz", tmp_path / "out.npz")

    graph = LayoutGraph()
    graph.eval()
    with np.load(tmp_path / "weights.npz") as stored:
        graph.set_state_dict({name: paddle.to_tensor(value) for name, value in stored.items()})
    with np.load(tmp_path / "out.npz") as expected:
        outputs = graph.features(paddle.to_tensor(expected["image"]))
        for output, name in zip(outputs, ("heat", "distances", "edges")):
            np.testing.assert_allclose(output.numpy(), expected[name], atol=2e-4)
        refined = graph.refine(outputs[2][:1], paddle.to_tensor(expected["boxes"])[None]).numpy()[0]
        assert np.abs(refined - expected["best"]).max() <= 3


def test_misfit_weights_are_named(tmp_path):
    weights = {name: value.numpy() for name, value in LayoutGraph().state_dict().items()}
    weights["heat.weight"] = weights["heat.weight"][:5]
    with pytest.raises(ValueError, match="heat.weight"):
        export(weights, tmp_path)


def test_rows_and_shapes():
    """Rows are whole even on a blank page, and pages of a batch do not mix."""
    paddle.seed(1)
    graph = LayoutGraph()
    graph.eval()
    images = np.ones((2, 3, INPUT, INPUT), np.float32)
    images[1, :, 100:160, 80:700] = 0.2
    shape, scale = np.full((2, 2), INPUT, np.float32), np.array([[0.5, 0.8], [0.4, 0.6]], np.float32)
    rows, counts = graph(*(paddle.to_tensor(value) for value in (shape, images, scale)))
    alone, _ = graph(*(paddle.to_tensor(value[1:]) for value in (shape, images, scale)))
    assert rows.shape == [2 * KEPT, 8] and counts.numpy().tolist() == [KEPT, KEPT]
    np.testing.assert_allclose(rows.numpy()[KEPT:], alone.numpy(), atol=1e-3)
    assert (rows.numpy()[:, [2, 4]] <= INPUT / 0.6 + 1).all()


@pytest.mark.parametrize(("held", "score", "stays"), [("table", 0.9, False), ("table", 0.3, True), ("text", 0.9, True)])
def test_a_table_suppresses_what_it_holds_by_less(held: str, score: float, stays: bool):
    """A heading that lies over another block by 45 % of its own size, and another far from both."""
    graph = LayoutGraph()
    kind = paddle.to_tensor([[DRAWN.index(label) for label in (held, "paragraph_title", "paragraph_title")]])
    boxes = paddle.to_tensor([[[400.0, 300, 700, 600], [290.0, 300, 490, 320], [100.0, 700, 300, 720]]])
    found = graph.suppress(kind, paddle.to_tensor([[score, 0.2, 0.2]]), boxes).numpy()[0]
    assert found.tolist() == pytest.approx([score, 0.2 if stays else 0.0, 0.2])
