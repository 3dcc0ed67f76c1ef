"""What `coterie federation demo` shows: a federation at work, and in the end what was where."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from safetensors.numpy import load_file

from coterie.core.errors import BadRun
from coterie.federation.demo.ward import OUTPUT, Ward, place_for, study

METHODS = ("local", "fedavg", "weight-erosion", "pens")
PERSONAL = ("local", "weight-erosion", "pens")  # those by which each site has a model of its own
BY = "pens"  # whose model predicts in the end
PATIENTS = 4
Say = Callable[[str], None]


def demo(folder: Path, hosts: bool, rounds: int, say: Say) -> None:
    """All of it; whatever is started is ended."""
    data = study(say)
    with place_for(data, folder, hosts) as place:
        ward = Ward(place, folder, data)
        ward.found()
        rows = ", ".join(f"{site} {len(found)}" for site, found in data.rows.items())
        say(f"{data.about} (rows: {rows}), in {folder}")
        where = "each in a network namespace of its own" if hosts else "on loopback"
        seconds = ward.start_all()
        say(f"a relay and {len(data.sites)} sites, {where}: all connected after {seconds:.1f} s")
        words = ["compare", "--methods", *METHODS, "--seeds", "1", "--rounds", str(rounds)]
        words = [*ward.led(words), "--out", str(ward.home("lead") / "comparison")]
        say(f"\nlead: coterie {shlex.join(words)}")
        ward.show("lead", words)
        _predict(ward, data.sites[0], say)
        say("\nwhat was where")
        for line in _inventory(ward):
            say(f"  {line}")
        say(f"  {search(ward)}")
    say(f"everything is ended; what it left is in {folder}")


def _predict(ward: Ward, site: str, say: Say) -> None:
    """A site's own model is asked about some of its patients, where both are."""
    home = ward.home(site)
    (home / "patients.csv").write_text(ward.study.table(site, slice(PATIENTS), target=False))
    words = ["predict", str(ward.models(site) / BY), str(home / "patients.csv"), "--explain", "2"]
    say(f"\n{site}, with the model that stayed there: coterie {shlex.join(words)}")
    ward.show(site, words)


def _inventory(ward: Ward) -> Iterator[str]:
    """A line for each host: what is on its disk besides its kit."""
    wide = max(map(len, ("coordinator", *ward.study.sites)))
    logs = ", ".join(f for f in ("relay.log", OUTPUT) if (ward.home("coordinator") / f).exists())
    yield f"{'coordinator':<{wide}}  {logs}: who came and went"
    for site, rows in ward.study.rows.items():
        own = ", ".join(m for m in METHODS if (ward.models(site) / m).is_dir())
        yield f"{site:<{wide}}  {site}.csv: {len(rows)} rows; state/models: {own}"
    kept = sorted({p.parents[2].name for p in ward.home("lead").glob("comparison/*/*/models/*.safetensors")})
    shared = ", ".join(kept) or "none"
    yield f"{'lead':<{wide}}  comparison: figures and report; models that all share: {shared}"


def search(ward: Ward) -> str:
    """Looks for every row and every site's own model where they must not be."""
    files = [p for party in ("coordinator", "lead") for p in ward.home(party).rglob("*") if p.is_file()]
    held = {path: path.read_bytes() for path in files}
    wanted, weights = list[tuple[str, bytes]](), list[tuple[str, bytes]]()
    for site in ward.study.sites:
        rows = ward.study.table(site, target=False).splitlines()[1:]
        wanted += [(f"a row of {site}", row.encode()) for row in rows]
        for method in PERSONAL:  # the largest array of each, as it is in any file or message
            arrays = load_file(ward.models(site) / method / "weights.safetensors").values()
            largest = max(arrays, key=lambda array: array.size)
            weights.append((f"a model of {site}", largest.tobytes()))
    for what, data in [*wanted, *weights]:
        for path, content in held.items():
            if data in content:
                raise BadRun(f"{path} holds {what}: it must not be there; please report it")
    return (
        f"looked for {len(wanted)} rows and {len(weights)} models of sites' own in all {len(files)} files of "
        "relay and lead: none there"
    )
