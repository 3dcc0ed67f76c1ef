"""Where somebody may withdraw from sums, or is kept out of them, `ownership` is around the net."""

from __future__ import annotations

from coterie.core.method import Method
from coterie.core.net import Net
from coterie.features.ownership.wrapper import Ownership
from coterie.nets.wrapped import Wrapped
from coterie.runs.hooks import Hook


class _OwnershipHook(Hook):
    order = 40

    def around(self, net: Net, method: Method) -> Net:
        within = net
        while isinstance(within, Wrapped) and not isinstance(within, Ownership):
            within = within.net
        needed = (net.withdraws or net.apart) and not isinstance(within, Ownership)
        return Ownership(net) if needed else net


HOOK = _OwnershipHook
