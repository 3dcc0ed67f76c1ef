"""Files of a site's state have a version: one that is not known is refused in a line, by whoever reads it."""

from __future__ import annotations

import json

import pytest

from coterie.core.errors import BadRun
from coterie.features.ledger.heads import read as read_heads
from coterie.federation.policy.keys import Policy
from coterie.federation.site.budget import SiteBudget
from coterie.federation.site.consent import known_offers, known_plans
from coterie.federation.site.model_origins import Bond, Origins
from coterie.federation.site.request_log import site_energy
from coterie.federation.site.state import NO_ROWS, RowMarks, write_about
from coterie.federation.site.state_folders import read_about
from coterie.storage.decisions import read_decisions

READERS = {
    "site.json": read_about,
    "ledger.jsonl": lambda state: SiteBudget(state, Policy()),
    "energy.jsonl": site_energy,
    "offers.jsonl": known_offers,
    "plans.jsonl": known_plans,
    "decisions.jsonl": read_decisions,
    "heads.jsonl": lambda state: read_heads(state / "heads.jsonl"),
    "origins.json": lambda state: Origins("a").load(state),
}
WRITTEN = {
    "decisions.jsonl": {"time": "2026-03-01T09:30:00+01:00", "by": "ann", "client": "a", "kind": "veto"},
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("schema", [0, 2, "1", True])
def test_an_unknown_version_is_refused_in_one_line(tmp_path, name, schema):
    (tmp_path / name).write_text(json.dumps({**WRITTEN.get(name, {}), "schema": schema}) + "\n")
    with pytest.raises(BadRun) as refused:
        READERS[name](tmp_path)
    bound = f"{tmp_path / name} has schema {schema!r}, this version of Coterie reads 1: "
    assert str(refused.value).startswith(bound)
    assert "\n" not in str(refused.value)


def test_what_is_written_has_the_number_and_what_was_written_before_is_read(tmp_path):
    rows = RowMarks(NO_ROWS.marks, frozenset({"x"}), frozenset())
    write_about(tmp_path, "ward", "a", rows)
    told = json.loads((tmp_path / "site.json").read_text())
    assert told["schema"] == 1
    del told["schema"]
    (tmp_path / "site.json").write_text(json.dumps(told))
    assert read_about(tmp_path)["digests"] == ["x"]
    origins = Origins("a", bonds={"b": Bond(distances=True)})
    origins.store(tmp_path)
    told = json.loads((tmp_path / "origins.json").read_text())
    assert told.pop("schema") == 1
    (tmp_path / "origins.json").write_text(json.dumps(told))
    before = Origins("a")
    before.load(tmp_path)
    assert before.bonds == origins.bonds
