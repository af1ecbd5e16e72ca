# SPDX-License-Identifier: Apache-2.0
"""python -m layout_server: serve the layout model that belongs to VLM_MODEL. Settings come from the environment.

Ends with status 2 and one line on stderr where a setting or the model is wrong, 4 where the device is missing.
"""

from __future__ import annotations

import logging
import os
import sys
import time

# torch would load torch_npu by itself, and its import would fail if CANN is not sourced.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import uvicorn  # noqa: E402

from declared_settings import refuse_unknown  # noqa: E402
from layout_server.app import LayoutService, make_app  # noqa: E402
from layout_server.device import open_device  # noqa: E402
from layout_server.model import LayoutModel  # noqa: E402
from layout_server.settings import Settings  # noqa: E402
from served_weights.layout import find_layout, verify_layout  # noqa: E402
from tool_errors import ServiceError, run  # noqa: E402

log = logging.getLogger("layout_server")


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    refuse_unknown(os.environ)
    settings = Settings.from_environment(os.environ)
    began = time.monotonic()
    weights = find_layout(settings.weights)
    verify_layout(weights.path)
    device = open_device(settings.device, settings.memory_share)
    model = LayoutModel(weights.path, device, settings.most_pages)
    log.info(
        "layout model %s on %s, up to %d pages at once, ready after %.1f s",
        weights.path,
        device,
        model.most_pages,
        time.monotonic() - began,
    )
    service = LayoutService(model, settings)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(service),
            host=settings.host,
            port=settings.port,
            log_level="warning",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=15,
            h11_max_incomplete_event_size=16 << 10,
        )
    )
    try:
        server.run()
    except SystemExit as exc:  # uvicorn's, where it cannot listen; it has logged the reason
        raise ServiceError(f"cannot listen on LAYOUT_HOST={settings.host}, LAYOUT_PORT={settings.port}") from exc
    if service.batcher.failed is not None:
        logging.shutdown()
        os._exit(1)  # do not wait for the device's thread, which may hang
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(run(main))
