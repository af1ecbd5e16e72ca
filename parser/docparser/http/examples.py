# SPDX-License-Identifier: Apache-2.0
"""Examples in the OpenAPI description. Tests send those of requests, and hold those of answers to their schemas.
FastAPI leaves out nulls."""

from __future__ import annotations

from typing import Any

from docparser.contract.answers import ModelsInUse, PageEntry, ParseAnswer, Report
from docparser.contract.job_answers import JobAnswer, SubmittedAnswer

PNG = (  # a blank page of 64 x 64 pixels
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAEklEQVR42mP4DwUMo4xRBukMAOPT/hAC2mzjAAAAAElFTkSuQmCC"
)
PICTURE = f"data:image/png;base64,{PNG}"

PARSE_REQUEST = {"file": PNG, "visualize": False}
RESTRUCTURE_REQUEST: dict[str, Any] = {
    "pages": [
        {
            "prunedResult": {
                "width": 1000,
                "height": 1400,
                "model_settings": {"use_doc_preprocessor": False, "use_layout_detection": True},
                "layout_det_res": {"boxes": []},
                "parsing_res_list": [
                    {
                        "block_label": "text",
                        "block_content": "Dear reader",
                        "block_bbox": [100, 100, 900, 200],
                        "block_id": 0,
                        "block_order": 1,
                        "group_id": 0,
                    }
                ],
            }
        }
    ]
}
CHAT_REQUEST = {
    "model": "PaddleOCR-VL",
    "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]}],
}
OCR_REQUEST = {"model": "mistral-ocr-latest", "document": {"type": "image_url", "image_url": PICTURE}}
DOCLING_REQUEST = {"sources": [{"kind": "file", "base64_string": PNG, "filename": "page.png"}]}
JOB_REQUEST = {"model": "PaddleOCR-VL", "fileUrl": PICTURE, "batchId": "monday"}

MODELS: ModelsInUse = {
    "layout": {"model": "PP-DocLayoutV2", "demo": False},
    "vlm": {"model": "PaddleOCR-VL-0.9B", "demo": False},
}
WHOLE: Report = {"models": MODELS, "partial": False, "pages": []}
PAGE: PageEntry = {
    "prunedResult": {
        "width": 1240,
        "height": 1754,
        "parsing_res_list": [
            {
                "block_label": "text",
                "block_content": "Dear reader",
                "block_bbox": [124, 140, 1116, 193],
                "block_id": 0,
                "block_order": 1,
                "group_id": 0,
                "confidence": 0.9713,
                "doubtful": False,
            }
        ],
    },
    "markdown": {"text": "Dear reader", "images": {}},
}
PARSED: ParseAnswer = {
    "logId": "1f0c",
    "errorCode": 0,
    "errorMsg": "Success",
    "result": {
        "layoutParsingResults": [PAGE],
        "dataInfo": {"type": "image", "width": 1240, "height": 1754},
        "docparser": WHOLE,
    },
}
SUBMITTED: SubmittedAnswer = {
    "logId": "1f0c",
    "code": 0,
    "msg": "Success",
    "data": {"jobId": "5d41", "docparser": {"model": "PaddleOCR-VL-0.9B", "notes": []}},
}
RUNNING: JobAnswer = {
    "logId": "1f0c",
    "code": 0,
    "msg": "Success",
    "data": {
        "jobId": "5d41",
        "state": "running",
        "model": "PaddleOCR-VL",
        "fileName": "handbook.pdf",
        "createTime": "2026-11-22T21:40:00.000Z",
        "extractProgress": {"totalPages": 3, "extractedPages": 1, "startTime": "2026-11-22T21:40:01.000Z"},
        "docparser": {
            "cancelled": False,
            "partial": True,
            "pages": {"queued": 1, "running": 1, "done": 1, "failed": 0},
            "failedPages": [],
            "model": "PaddleOCR-VL-0.9B",
            "notes": [],
            "partialUrl": "http://127.0.0.1:8080/api/v2/ocr/results/5d41/permission/result.jsonl",
        },
    },
}
