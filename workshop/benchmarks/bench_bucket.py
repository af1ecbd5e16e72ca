#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the parser's requests to a bucket take, one after the other: medians.

    PYTHONPATH=.:parser .venvs/parser/bin/python workshop/benchmarks/bench_bucket.py moto|swift|s3://bucket/prefix
                           [--requests N]

moto and swift are the tests' servers, made for the run. A bucket of one's own is found through the AWS variables; its
objects below the prefix `bench` are removed at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from docparser.s3 import Bucket
from tests.support.s3 import BucketServer, S3Server
from tests.support.swift import SwiftServer

SIZES = {"10 KB": 10_000, "1 MB": 1_000_000}
SERVERS: dict[str, Callable[[], BucketServer]] = {"moto": S3Server, "swift": SwiftServer}


@contextlib.contextmanager
def place(named: str) -> Iterator[str]:
    """The URL of a bucket's place."""
    if named not in SERVERS:
        yield f"{named.rstrip('/')}/bench"
        return
    server = SERVERS[named]()
    try:
        os.environ.update(server.environment)
        yield server.bucket()
    finally:
        server.end()


def measure(what: str, requests: int, request: Callable[[int], object]) -> None:
    taken = []
    for number in range(requests):
        began = time.perf_counter()
        request(number)
        taken.append(1000 * (time.perf_counter() - began))
    print(f"{what:18} median {statistics.median(taken):6.1f} ms, slowest {max(taken):6.1f} ms", flush=True)


def put(bucket: Bucket, content: bytes, number: int) -> None:
    bucket.put(f"{number:06d}", content)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("place", help="moto, swift, or s3://bucket/prefix")
    parser.add_argument("--requests", type=int, default=100, metavar="N", help="of each kind (default: %(default)s)")
    words = parser.parse_args()
    with place(words.place) as url:
        bucket = Bucket(url)
        for size, count in SIZES.items():
            content = os.urandom(count)
            measure(f"put, {size}", words.requests, partial(put, bucket, content))
            measure(f"get, {size}", words.requests, lambda number: bucket.get(f"{number:06d}"))
        measure("look", words.requests, lambda number: bucket.entry(f"{number:06d}"))
        measure("list", words.requests, lambda number: list(bucket.entries(f"{number:06d}")))
        measure("delete", words.requests, lambda number: bucket.delete(f"{number:06d}"))


if __name__ == "__main__":
    main()
