"""What a site has spent in all runs, for all who led them: its own ledger, and its own secret noise.

`ledger.jsonl` in the site's state folder has a line for each visit that looked at rows with noise: when, for
whom, in which run, what it was and what it cost. A line is on the disk before the visit is computed, so that
no answer leaves that is not accounted for. It is only ever added to, and survives restarts, runs and kits;
what was spent on the same rows under another name counts as well (`state.py`).

At a site the requester is the person who leads a run, by the certificate: whose models visit is only what a
lead says. All leads together have what `epsilon` says, each of them `epsilon_a_requester` if the policy has
it.

Noise does not come from the run's key, which is in the lead's record. It comes from

    HMAC-SHA256(secret, everything that went into the visit)

with 32 bytes of the system's randomness in `noise.key` (mode 600): the run and its lead, the site's rows, the
model, the kernel, the key, the slot and what is remembered under it, and the bytes of all beliefs. The same
question again gets the same answer, and is charged once; another one gets other noise, and is charged anew.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from coterie.core.charge import Charge
from coterie.core.errors import BadInput, BadRun, Refused
from coterie.core.kernel import Kernel, looks, scores
from coterie.core.seeds import Key
from coterie.core.wire import pack
from coterie.federation.policy.keys import Policy
from coterie.federation.site.state_folders import STATE_FILES, kin_of, one_at_a_time
from coterie.kernels.noisy import as_written
from coterie.nets.courier import said
from coterie.privacy.accounting import COARSE, Charges, accountants, as_charges, check_delta, epsilon
from coterie.privacy.spending import Account, Budget, cost_of
from coterie.storage.atomic import readable_errors

LEDGER, SECRET = "ledger.jsonl", "noise.key"
_SIZE = 32  # bytes
_NOISE, _MARK = b"noise", b"mark"


class SiteBudget:
    """A site's ledger and secret, in its state folder."""

    def __init__(self, state: Path, policy: Policy) -> None:
        self.state, self.policy = state, policy
        self.account, self.marks = Account(), set[str]()
        self.budget: Budget | None = None
        if policy.epsilon is not None:
            accountants()  # said when the site starts, not in a run
            self.budget = Budget(policy.epsilon, policy.delta, policy.epsilon_a_requester)
        self._read: dict[Path, int] = {}  # bytes of ledgers of kin that are in the account
        for entry in _ledger_lines(state / LEDGER):
            self._note(entry)
        with one_at_a_time(state):
            self._catch_up()

    def cost(self, kernel: Kernel, rows: Mapping[str, int]) -> Charges:
        """What one visit costs; what has no bound is refused where there is a budget."""
        try:
            found = cost_of(kernel, rows)
        except BadInput as error:  # fewer rows than a batch, say
            raise Refused(str(error)) from None
        clear = scores(kernel) and not looks(kernel) and self.policy.clear_scores
        if found is not None or self.budget is None or clear:
            return found or ()
        line = f"{as_written(kernel)} gives no bound, where the policy has epsilon = {self.budget.epsilon:g}"
        if looks(kernel):
            raise Refused(f"{line}: set the method's epsilon (--similar.epsilon 3)")
        if scores(kernel):
            raise Refused(f"{line}: run with --wrap private:scores=noisy, or set clear_scores = true")
        raise Refused(f'{line}: take --kernel "dp(sgd)"')

    def spend(self, leader: str, run: str, kernel: Mapping[str, Any], cost: Charges, mark: str) -> None:
        """One visit, before it is computed; one that was paid for already is free."""
        with one_at_a_time(self.state):
            self._catch_up()
            if mark in self.marks:
                return
            if self.budget is not None and not self.budget.admits(self.account, leader, cost):
                budget, spent, whose = self.budget, self.account.all(), ""
                bound = budget.epsilon
                if budget.per_requester is not None and budget.each is not None:
                    own = self.account.of(leader)
                    if epsilon(as_charges(own), self.policy.delta, COARSE) > 0.5 * budget.per_requester:
                        spent, bound, whose = own, budget.per_requester, f" for {leader}"
                found = f"{epsilon(as_charges(spent), self.policy.delta, COARSE):.3g} of {bound:g}{whose}"
                raise BadRun(f"out of budget: epsilon {found} is spent, and this visit would exceed it")
            entry: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "by": leader, "run": run}
            entry |= {"kernel": said(kernel)[:500], "charges": list(map(asdict, cost)), "mark": mark}
            append_synced(self.state / LEDGER, entry)
            self._note(entry)

    def _note(self, entry: Mapping[str, Any]) -> None:
        self.account.charge(str(entry["by"]), [Charge(**charge) for charge in entry["charges"]])
        self.marks.add(str(entry["mark"]))

    def _catch_up(self) -> None:
        """What was spent on the same rows under other names, by other processes too (`state_folders.py`)."""
        for path in (folder / LEDGER for folder in kin_of(self.state)):
            size = path.stat().st_size if path.exists() else 0
            if size > self._read.get(path, 0):
                for entry in _ledger_lines(path):
                    if entry["mark"] not in self.marks:
                        self._note(entry)
                self._read[path] = size

    @property
    def secret(self) -> bytes:
        return secret_at(self.state / SECRET)

    def secret_key(self, content: bytes, key: Key) -> tuple[Key, str]:
        """The key of a visit of this content, and a mark by which it is known again."""
        seed = hmac.new(self.secret, _NOISE + content, hashlib.sha256).digest()
        mark = hmac.new(self.secret, _MARK + content, hashlib.sha256).hexdigest()
        return Key(int.from_bytes(seed, "big"), ("visit",), key.round, key.rounds), mark

    def check_rows(self, sizes: Mapping[str, int]) -> None:
        """A delta above 1/n protects nothing."""
        if self.policy.epsilon is None:
            return
        try:
            check_delta(self.policy.delta, sum(sizes.values()))
        except BadInput as error:
            raise Refused(f"{error}, in the policy") from None


def secret_at(path: Path) -> bytes:
    """Made when it is first needed."""
    with readable_errors(path):
        if not path.exists():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb", buffering=0) as file:
                file.write(secrets.token_bytes(_SIZE))
                os.fsync(file.fileno())
        found = path.read_bytes()
    if len(found) != _SIZE:
        raise BadRun(f"{path} does not have {_SIZE} bytes: remove it, and a new one is made")
    return found


def content_of(
    facts: Mapping[str, Any],
    beliefs: Mapping[str, Tensor],
    beside: Mapping[str, Mapping[str, Tensor]],
    memory: Mapping[str, Tensor] | None,
) -> bytes:
    """Everything that goes into a visit, in bytes."""
    tensors = {f"belief/{name}": t for name, t in beliefs.items()}
    tensors |= {f"beside/{who}/{name}": t for who, some in beside.items() for name, t in some.items()}
    tensors |= {f"memory/{name}": t for name, t in (memory or {}).items()}
    return hashlib.sha256(pack(facts, tensors)).digest()


def append_synced(path: Path, entry: Mapping[str, Any]) -> None:
    """One line, on the disk when this is over."""
    with readable_errors(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "ab", buffering=0) as file:
            file.write(json.dumps(entry).encode() + b"\n")
            os.fsync(file.fileno())


def _ledger_lines(path: Path) -> Sequence[dict[str, Any]]:
    """The lines of a ledger. A last one that is cut short was not answered, and goes; any other damage ends
    the site, as it could not say what it has spent.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    whole, _, torn = data.rpartition(b"\n")
    if torn:
        with readable_errors(path), path.open("rb+") as file:
            file.truncate(len(data) - len(torn))
    found = []
    for i, line in enumerate(whole.splitlines(), 1):
        try:
            entry = json.loads(line)
            STATE_FILES.check(entry, path)
            [Charge(**charge) for charge in entry["charges"]]
            entry["by"], entry["mark"]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            remedy = "restore it, or remove it and take its cost for spent"
            raise BadRun(f"{path}: line {i} is damaged: {remedy}") from None
        found.append(entry)
    return found
