# SPDX-License-Identifier: Apache-2.0
"""Decode files as the parser will; runs in the parser's environment: decode_inputs.py KIND=PATH ...

Prints {path: pages} as JSON; ends with status 2 and one line on stderr at the first file that cannot be read.
"""

import json
import pathlib
import sys
import warnings


def pdf_pages(path: str) -> int:
    """Return the number of pages of a PDF; raises ValueError for one that is broken, locked or empty."""
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as document:
            count = len(document)
            if count:
                document[0].get_size()
    except pypdfium2.PdfiumError as error:
        # For some files PDFium reports the error of an earlier file, so its message alone is not enough.
        locked = "password" in str(error).lower() and b"/Encrypt" in pathlib.Path(path).read_bytes()
        reason = "it is encrypted; remove its password first" if locked else "it is damaged or has no pages"
        raise ValueError(f"the PDF cannot be read: {reason}") from error
    if not count:
        raise ValueError("the PDF has no pages")
    return count


def image_pages(path: str) -> int:
    """Return the number of frames of an image; raises ValueError for one that cannot be decoded to its end."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            frames = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
            for frame in range(frames):
                image.seek(frame)
                image.load()
    except Image.DecompressionBombError as error:
        raise ValueError(f"the image is too large ({error})") from error
    except (OSError, SyntaxError, EOFError, ValueError) as error:
        raise ValueError(f"the image is broken ({error})") from error
    return frames


def main(words: list[str]) -> int:
    warnings.simplefilter("ignore")
    pages = {}
    for word in words:
        kind, _, path = word.partition("=")
        try:
            pages[path] = pdf_pages(path) if kind == "PDF" else image_pages(path)
        except ValueError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
    print(json.dumps(pages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
