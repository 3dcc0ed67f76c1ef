"""NVFlare's F3 layer around a driver of ours: it keeps connectors going, greets, and sends heartbeats.

Its pools of threads are put aside: they would keep a process from ending, and only greetings reach them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from nvflare.fuel.f3.comm_config import CommConfigurator
from nvflare.fuel.f3.communicator import Communicator
from nvflare.fuel.f3.drivers.base_driver import BaseDriver
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.sfm.constants import HandshakeKeys

STANDARD = (HandshakeKeys.ENDPOINT_NAME, HandshakeKeys.TIMESTAMP)


class _AtOnce:
    """In place of F3's pool for frames, of which only greetings reach it: in the connection's own thread."""

    def submit(self, call: Callable[..., Any], *args: Any) -> None:
        call(*args)

    def shutdown(self, wait: bool = True) -> None:
        pass


class _Daemons(_AtOnce):
    """In place of F3's pool for connectors, whose threads would keep a process from ending."""

    def submit(self, call: Callable[..., Any], *args: Any) -> None:
        threading.Thread(target=call, args=args, name="coterie-line", daemon=True).start()


def communicator(name: str, about: Mapping[str, Any], driver: BaseDriver, mode: Mode) -> Communicator:
    """F3 around a driver of ours."""
    if not logging.getLogger("coterie").isEnabledFor(logging.INFO):
        logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    # else it searches all folders below this one for a file of settings, for seconds, and obeys what it finds
    CommConfigurator._config_loaded = True
    made = Communicator(Endpoint(name, {k: v for k, v in about.items() if k not in STANDARD}))
    made.conn_manager.conn_mgr_executor = _Daemons()
    made.conn_manager.frame_mgr_executor = _AtOnce()
    made.add_connector_advanced(driver, mode, {"scheme": "coterie", "host": "", "port": 0, "path": ""}, True)
    return made
