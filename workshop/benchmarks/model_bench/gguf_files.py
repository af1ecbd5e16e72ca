# SPDX-License-Identifier: Apache-2.0
"""The published shapes as GGUF, for llama.cpp: its own converter, on the random weights of model_bench.checkpoint.

    python -m model_bench.gguf_files --shapes DIR --llama_cpp DIR [--types F16 Q8_0 Q4_K_M]

--llama_cpp is its source tree, built in its folder `build`. Writes DIR/TYPE.gguf and DIR/TYPE.projector.gguf, which
holds the tower too. Q4_K_M's projector is Q8_0's: the tower's 1152 features fit no block of 256. The converter itself
keeps what fits no block of 32 (the tower's 4304 features) in F16.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

TYPES = ("F16", "Q8_0", "Q4_K_M")


def save_sentencepiece(folder: Path) -> None:
    """tokenizer.model, the only form that the converter reads, with the pieces of the folder's tokenizer.json: letters
    are bytes, words that no text holds fill it up."""
    from sentencepiece import sentencepiece_model_pb2  # type: ignore[import-untyped]  # it brings none

    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    special = {token["content"] for token in tokenizer["added_tokens"]}
    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.bos_id, model.trainer_spec.eos_id, model.trainer_spec.pad_id = 1, 2, -1
    byte = 0
    for text, number in sorted(tokenizer["model"]["vocab"].items(), key=lambda pair: pair[1]):
        piece, kind = text, kinds.NORMAL
        if text in special:
            kind = kinds.UNKNOWN if number == 0 else kinds.CONTROL
        elif byte < 256:
            piece, kind, byte = f"<0x{byte:02X}>", kinds.BYTE, byte + 1
        model.pieces.add(piece=piece, score=-float(number), type=kind)
    (folder / "tokenizer.model").write_bytes(model.SerializeToString())


def convert(shapes: Path, llama_cpp: Path, kind: str) -> None:
    """Make a type's two files where they are missing."""
    converter = [sys.executable, str(llama_cpp / "convert_hf_to_gguf.py"), str(shapes)]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    text, projector = shapes / f"{kind}.gguf", shapes / f"{kind}.projector.gguf"
    quantised = kind == "Q4_K_M"
    plain = "q8_0" if quantised else kind.lower()
    if not projector.is_file():
        words = ["--mmproj", "--outfile", str(projector), "--outtype", plain]
        subprocess.run([*converter, *words], env=env, check=True, stdout=sys.stderr)
    if text.is_file():
        return
    if not quantised:
        subprocess.run([*converter, "--outfile", str(text), "--outtype", plain], env=env, check=True, stdout=sys.stderr)
        return
    convert(shapes, llama_cpp, "F16")
    words = [str(llama_cpp / "build/bin/llama-quantize"), str(shapes / "F16.gguf"), str(text), kind]
    subprocess.run(words, check=True, stdout=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=Path, required=True)
    parser.add_argument("--llama_cpp", type=Path, required=True)
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    options = parser.parse_args()
    save_sentencepiece(options.shapes)
    for kind in options.types:
        convert(options.shapes, options.llama_cpp, kind)


if __name__ == "__main__":
    main()
