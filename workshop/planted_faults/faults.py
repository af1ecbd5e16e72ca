# SPDX-License-Identifier: Apache-2.0
"""The table of faults. Each changes what a user could notice, and was chosen from the code before its tests were read.

`tests` are paths of the default tier (tests/runner/groups.py), those that judge the file, and options of pytest that
save time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`text` stands exactly once in `file`; `environment` is the one that the tests' group runs in, `also` are further
    ones that its tests start."""

    name: str
    file: str
    text: str
    replacement: str
    environment: str
    tests: tuple[str, ...]
    also: tuple[str, ...] = ()


FAULTS = (
    Fault(
        # A file of the same size is taken for the one that was checked before.
        "cache-key-without-time",
        "common/served_weights/manifest.py",
        "mark = [stat.st_size, stat.st_mtime_ns, stat.st_ino]",
        "mark = [stat.st_size, stat.st_ino]",
        "tools",
        ("tests/bundle/test_served_weights.py",),
    ),
    Fault(
        "die-memory-in-mb",
        "common/npu_smi.py",
        "die.memory_total << 20",
        "die.memory_total * 1_000_000",
        "tools",
        ("tests/bundle/test_containers.py", "tests/bundle/test_launcher.py"),
    ),
    Fault(
        # A probe of a neighbour goes through the proxy that the environment names.
        "probe-by-proxy",
        "common/health_probe.py",
        "urllib.request.ProxyHandler({})",
        "urllib.request.ProxyHandler()",
        "tools",
        ("tests/bundle/test_waiting.py", "tests/bundle/test_containers.py"),
    ),
    Fault(
        # A process on chip 0 of an NPU is taken for one on no chip of ours.
        "chip-counted-from-1",
        "operations/bundle/preflight/npu.py",
        "{(die.npu, die.chip) for die",
        "{(die.npu, die.chip + 1) for die",
        "tools",
        ("tests/bundle/preflight/test_nodes.py", "-k", "trouble"),
    ),
    Fault(
        # A program has given up, and the container goes on without it.
        "guard-ends-itself",
        "operations/container/guard.py",
        "os.kill(os.getppid(), signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "tools",
        ("tests/bundle/test_supervision.py",),
    ),
    Fault(
        "next-frame-of-a-tiff",
        "operations/batch/pages.py",
        "pictures.read(path, format, number - 1)",
        "pictures.read(path, format, number)",
        "client",
        ("tests/tools/test_outputs.py",),
        also=("parser",),
    ),
    Fault(
        "no-retry-after",
        "parser/docparser/http_protocol.py",
        "if status in (429, 503) else",
        "if status == 429 else",
        "parser",
        ("tests/parser/test_connections.py",),
    ),
    Fault(
        # A full disk looks like a fault of the service.
        "full-disk-is-500",
        "parser/docparser/http/errors.py",
        "errors.DataDirFull: 507",
        "errors.DataDirFull: 500",
        "parser",
        ("tests/parser/test_refusals.py",),
    ),
    Fault(
        "last-page-of-a-range",
        "parser/docparser/contract/request_parts.py",
        "range(first, last + 1)",
        "range(first, max(last, first + 1))",
        "parser",
        ("tests/parser/test_requests_of_dialects.py",),
    ),
    Fault(
        # A client's short job waits for all pages of the long one before it.
        "jobs-of-a-client-by-age",
        "parser/docparser/jobs/storage/job_order.py",
        "f.turns, f.flow, j.turns, j.created LIMIT",
        "f.turns, f.flow, j.created, j.turns LIMIT",
        "parser",
        ("tests/jobs/test_store.py", "-k", "not postgresql"),
    ),
    Fault(
        # A page whose worker died goes behind all that wait.
        "lost-page-goes-last",
        "parser/docparser/parsing/scheduler.py",
        "self._queue.add(item, first=True)",
        "self._queue.add(item)",
        "parser",
        ("tests/parser/test_scheduler.py", "tests/parser/test_scheduler_failures.py"),
    ),
    Fault(
        # Without layout detection the page's one box is as wide as the page is high.
        "page-box-turned",
        "parser/docparser/page/loop.py",
        "[0, 0, width, height]",
        "[0, 0, height, width]",
        "parser",
        ("tests/parser/page", "tests/parser/test_documents.py"),
    ),
    Fault(
        "skew-the-other-way",
        "parser/docparser/small_print/bands.py",
        "rows + math.tan(",
        "rows - math.tan(",
        "parser",
        ("tests/parser/small_print",),
    ),
    Fault(
        # Failed calls are tried again without a pause.
        "pause-not-awaited",
        "parser/docparser/vlm/client.py",
        "await asyncio.sleep((failed",
        "asyncio.sleep((failed",
        "parser",
        ("tests/parser/test_vlm_away.py", "tests/parser/test_vlm_calls.py"),
    ),
    Fault(
        # What is filled into a form is not drawn.
        "forms-left-out",
        "parser/docparser/documents/pdf.py",
        "self.document.init_forms()",
        "self.document.get_formtype()",
        "parser",
        ("tests/parser/test_documents.py", "tests/parser/test_reader.py"),
    ),
    Fault(
        # The second try writes over what the first one left, and its rest stays.
        "rest-of-the-first-try",
        "parser/docparser/sandbox/pool.py",
        "os.ftruncate(files[1], 0)",
        "os.fsync(files[1])",
        "parser",
        ("tests/parser/test_child_processes.py",),
    ),
    Fault(
        "spans-without-bound",
        "parser/docparser/html_tables.py",
        "if covered > MAX_COVERED:",
        "if covered < 0:",
        "parser",
        ("tests/jobs/test_convert.py", "tests/parser/test_formulas.py", "-k", "not those_of_the_expressions"),
    ),
    Fault(
        # Uploads that come at once exceed the quota of bytes together.
        "arriving-bytes-not-counted",
        "parser/docparser/clients/allowance.py",
        'self._ledger.used(client, quota) + (self._arriving[client] if resource == "bytes" else 0)',
        "self._ledger.used(client, quota)",
        "parser",
        ("tests/parser/test_clients.py", "tests/parser/test_client_requests.py"),
    ),
    Fault(
        # Of several workers, each translates the layout model at the start.
        "translated-without-lock",
        "parser/docparser/layout/graph.py",
        "with self._lock():",
        "if True:",
        "parser",
        ("tests/parser/layout",),
    ),
    Fault(
        # Text behind a wide image stands where the image's columns are.
        "text-inside-the-image",
        "model_code/vlm_models/paddleocr_vl/positions.py",
        "position += max(image.rows, image.columns)",
        "position += image.rows",
        "vlm",
        ("tests/plugin/test_positions.py",),
    ),
)
