"""Where local work has noise, a wrapper around the net adds up what visits cost rows (`wrapper.py`), and the
run's record says it in the end, in privacy.json (see `statement` in `privacy/spending.py`); None before the
run is over, and where local work has no bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coterie.core.method import Method, costs
from coterie.core.net import Net
from coterie.features.privacy.wrapper import Accounted
from coterie.runs.hooks import Hook, Run
from coterie.runs.record import Kept, known
from coterie.storage.atomic import write_whole
from coterie.storage.tensors import damaged

FILE = "privacy.json"


class _PrivacyHook(Hook):
    order = 60

    def around(self, net: Net, method: Method) -> Net:
        return Accounted(net) if costs(method, net.roster) and not net.accounts else net

    def look(self, run: Run) -> None:
        self.statement = run.net.statement()
        run.record.more["privacy"] = partial(known, self.statement)

    def save(self, run: Run) -> None:
        if run.folder and self.statement is not None:
            write_whole(run.folder.path / FILE, json.dumps(self.statement, indent=1) + "\n")


def _read_statement(folder: Path) -> Mapping[str, Any]:
    name = folder / FILE
    try:
        told = json.loads(name.read_bytes())
        if not (isinstance(told, dict) and {"delta", "sites", "budget", "outside", "scores"} <= told.keys()):
            raise ValueError("it lacks something")
    except (ValueError, RecursionError) as error:
        raise damaged(name, str(error)) from None
    return told


HOOK = _PrivacyHook
KEPT = {"privacy": Kept(FILE, _read_statement)}
