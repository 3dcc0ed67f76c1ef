"""Where somebody may withdraw from sums, or is kept out of them, `ownership` is around the net."""

from __future__ import annotations

from coterie.core.method import Method
from coterie.core.net import Net
from coterie.features.ownership.wrapper import Ownership, ownership_of
from coterie.runs.hooks import Hook


class OwnershipHook(Hook):
    order = 40

    def around(self, net: Net, method: Method) -> Net:
        return Ownership(net) if (net.withdraws or net.apart) and not any(ownership_of(net)) else net


HOOK = OwnershipHook
