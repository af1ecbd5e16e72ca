# SPDX-License-Identifier: Apache-2.0
"""Stands in for the `python` of the vlm and parser environments: a labelled fake of both services' outer behaviour.

What it does wrong is chosen by FAKE_VLM and FAKE_PARSER: `die`, `hang`, `slow` (a page takes 60 s), `refuse` (HTTP
400), `fail` (HTTP 503), `short` (a page is missing).
"""

import http.server
import json
import os
import pathlib
import sys
import time

BEHAVIOUR = {"vlm": os.environ.get("FAKE_VLM", ""), "parser": os.environ.get("FAKE_PARSER", "")}


class Handler(http.server.BaseHTTPRequestHandler):
    service = ""

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        healthy = BEHAVIOUR[self.service] != "hang"
        self.answer(200 if healthy else 503, {"errorCode": 0 if healthy else 503, "errorMsg": "fake"})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        behaviour = BEHAVIOUR["parser"]
        if behaviour == "slow":
            time.sleep(60)
        if behaviour in ("refuse", "fail"):
            status = {"refuse": 400, "fail": 503}[behaviour]
            return self.answer(status, {"logId": "x", "errorCode": status, "errorMsg": f"file: told to {behaviour}"})
        page = {"prunedResult": {"parsing_res_list": []},
                "markdown": {"text": "Hello ![](imgs/a.jpg)", "images": {"imgs/a.jpg": "QUJD"}}}
        info = {"type": "pdf", "numPages": 3 if behaviour == "short" else 1}
        return self.answer(200, {"errorCode": 0, "result": {"layoutParsingResults": [page], "dataInfo": info}})

    def log_message(self, *arguments):
        pass


def serve(service, port):
    if BEHAVIOUR[service] == "die":
        sys.exit("fatal error: fake death")
    handler = type("ServiceHandler", (Handler,), {"service": service})
    http.server.ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()


def decode(words):
    """Stands in for decode_inputs.py: a file that holds the word `broken` is broken."""
    paths = [word.partition("=")[2] for word in words]
    for path in paths:
        if b"broken" in pathlib.Path(path).read_bytes():
            sys.exit(f"{path}: the image is broken (fake)")
    print(json.dumps(dict.fromkeys(paths, 1)))


def main(words):
    if words[:2] == ["-m", "vlm_server"] and "--print-weights" in words:
        if os.environ.get("VLM_MODEL") == "missing":
            print("error: VLM_MODEL is 'missing'", file=sys.stderr)
            sys.exit(2)
        print("DEMO WEIGHTS (fake banner)", file=sys.stderr)
        print(json.dumps({"model": "fake", "path": "/fake", "demo": True}))
    elif words[:2] == ["-m", "vlm_server"] or words[0].endswith("scripts/container/replica.py"):
        serve("vlm", int(os.environ["VLM_PORT"]))
    elif words[:2] == ["-m", "docparser"]:
        serve("parser", int(os.environ["PARSER_PORT"]))
    elif words[0] == "-I":
        decode(words[2:])
    else:
        sys.exit(f"fake_services: unexpected {words}")


if __name__ == "__main__":
    main(sys.argv[1:])
