# SPDX-License-Identifier: Apache-2.0
"""The client of the `paddleocr` package: `python job_client.py URL DOCUMENT FOLDER` in the environment `parser`.

Prints the pages that it got as JSON; their pictures go to `FOLDER`.
"""

from __future__ import annotations

import json
import sys

from paddleocr._api_client.client import PaddleOCRClient


def main(url: str, document: str, folder: str) -> None:
    with PaddleOCRClient(token="any", base_url=url) as client:
        job = client.submit_document_parsing(file_path=document)
        result = client.wait_document_parsing_result(job)
        client.save_document_parsing_result_resources(result, folder)
    pages = [{"text": page.markdown_text, "pictures": sorted(page.markdown_images or {})} for page in result.pages]
    json.dump(pages, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
