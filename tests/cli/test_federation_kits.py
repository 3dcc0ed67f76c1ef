"""coterie federation init, invite, revoke: the very lines, and no key among them."""

import sys
from pathlib import Path

import pytest

import coterie
import coterie.federation
from coterie.federation.kits.kit import read_kit, read_revoked

INIT = ("federation", "init", "ward", "--sites", "north", "south", "--people", "lead", "anna:viewer")


def test_a_federation_from_its_making_to_a_site_shut_out(coterie):
    code, out, err = coterie(*INIT)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "federation ward: 2 site(s), in ward",
        "  ward/authority    makes and revokes kits: keep it yourself, where nobody else can read it",
        "  ward/coordinator  for the host 127.0.0.1, where the relay runs",
        "  ward/sites/north  for the site north",
        "  ward/sites/south  for the site south",
        "  ward/people/lead  for lead, who starts runs",
        "  ward/people/anna  for anna, who may see which sites are there",
        "Whoever has a kit's key is that party: hand each over by a safe way, to its owner alone.",
        "next: coterie relay ward/coordinator",
    ]
    told = [out]
    code, out, err = coterie("federation", "invite", "ward", "west", "--days", "30")
    assert (code, out, err) == (0, "ward/sites/west: for the site west; hand it over by a safe way\n", "")
    code, out, err = coterie("federation", "revoke", "ward", "west")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "west is revoked; a relay that runs from ward/coordinator shuts it out now",
        "if it runs from a copy, put ward/authority/revoked.json into that",
    ]
    revoked = read_revoked(read_kit("ward/coordinator"))
    assert revoked.serials == {read_kit("ward/sites/west").card.serial}
    code, out, _ = coterie("federation", "invite", "ward", "west", "--role", "lead")
    assert (code, out) == (0, "ward/people/west: for west, who starts runs; hand it over by a safe way\n")
    for key in Path("ward").rglob("*.key"):
        assert key.read_text().splitlines()[1] not in "".join([*told, out])


def test_all_mistakes_of_init_at_once(coterie, tmp_path):
    words = ("--sites", "a/b", "c", "C", "--host", "relay.org", "--port", "0")
    code, out, err = coterie("federation", "init", "ward", *words)
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "coterie: name 'a/b' must be 1 to 63 letters from a to z, digits, - or _, the first no - or _: "
        "try site-1",
        "coterie: name 'C' is there already (A and a count as the same): choose another",
        "coterie: host 'relay.org' is reached from elsewhere, and nothing listens there unless you say so: "
        "add --listen 0.0.0.0, or the one address to listen on",
        "coterie: port=0 must be from 1 to 65535: try 8443",
    ]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("inti",), "unknown federation command 'inti': did you mean init?"),
        (("init", "ward"), "a federation needs a site: name one or more with --sites a"),
        (
            ("init", "/dev/null/x", "--sites", "a"),
            "cannot write DIR '/dev/null/x': /dev/null is not a folder: ",
        ),
        (
            ("invite", "ward", "a"),
            "ward has no authority/ca.key: give the folder that coterie federation init",
        ),
        (
            ("revoke", "ward", "a"),
            "ward has no authority/ca.key: give the folder that coterie federation init",
        ),
        (("revoke", "ward"), "Missing from coterie federation revoke: NAME"),
        (("invite", "ward", "a", "--role", "boss"), "invalid choice 'boss' for --role: choose one of"),
    ],
)
def test_the_line_of_a_mistake(refused, words, said):
    assert said in refused("federation", *words)


def test_without_the_package_it_needs(refused, monkeypatch):
    monkeypatch.setattr(coterie, "federation", coterie.federation)  # what is imported now goes again
    for name in [m for m in sys.modules if m.startswith("coterie.federation")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    said = refused("federation", "init", "ward", "--sites", "a")
    assert said == "coterie: kits need cryptography: pip install 'coterie[network]'"
