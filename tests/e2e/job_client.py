# SPDX-License-Identifier: Apache-2.0
"""Both clients of the `paddleocr` package: `python job_clients.py URL DOCUMENT FOLDER` in the environment `parser`.

Prints the pages that each got as JSON; the synchronous one's pictures go to `FOLDER/pictures`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from paddleocr._api_client.async_client import AsyncPaddleOCRClient
from paddleocr._api_client.client import PaddleOCRClient


def described(result) -> list[dict]:
    return [{"text": page.markdown_text, "pictures": sorted(page.markdown_images or {})} for page in result.pages]


async def asynchronous(url: str, document: str) -> list[dict]:
    async with AsyncPaddleOCRClient(token="any", base_url=url) as client:
        return described(await client.parse_document(file_path=document))


def synchronous(url: str, document: str, folder: Path) -> list[dict]:
    folder.mkdir()
    with PaddleOCRClient(token="any", base_url=url) as client:
        job = client.submit_document_parsing(file_path=document)
        result = client.wait_document_parsing_result(job)
        client.save_document_parsing_result_resources(result, str(folder))
    return described(result)


if __name__ == "__main__":
    url, document, folder = sys.argv[1:]
    json.dump(
        {
            "sync": synchronous(url, document, Path(folder) / "pictures"),
            "async": asyncio.run(asynchronous(url, document)),
        },
        sys.stdout,
    )
