"""A person at a hospital of a running federation, who has never seen Coterie, and four questions."""

from __future__ import annotations

import json
import re
import socket
import ssl
import time

import pytest
from pages import tab
from ward import COTERIE, LONG, Ward, wait_until

from coterie.runs.folder import read_record

ROUNDS = 400  # more than are waited for


@pytest.fixture
def at_a(ward: Ward, browser):
    """The page of site a, opened by the address that its command printed."""
    place = ward.start("page", [*COTERIE, "page", ward.kits["a"], "--port", "0"])
    address = place.wait_for("page: ", LONG).split("page: ")[1].strip()
    with tab(browser) as page:
        page.goto(address)
        yield page
        page.goto("about:blank")
    place.stop()


def test_four_questions_are_answered_from_the_page_alone(ward, at_a):
    """With whom, why, what do I gain, what did I give away: while the run goes on, at the site's own machine,
    where nobody has another site's figures. What is read there is held against the lead's own record.
    """
    for out, *words in (("alike", "similar", "--rounds", 1), ("alone", "local", "--rounds", 3)):
        assert ward.run(out, "--method", *words).wait(LONG) == 0
    driver = ward.run("together", "--method", "weight-erosion", "--rounds", ROUNDS, "--sgd.lr", "0.05")
    metrics = ward.folder / "together" / "metrics.jsonl"
    wait_until(lambda: metrics.exists() and len(ward.lines("together")) > 4)

    at_a.get_by_role("link", name="weight-erosion, ").click()  # it has come by itself
    at_a.get_by_text("running").first.wait_for()

    with_whom = at_a.locator("#answer-with").inner_text()
    # on a slow machine the page is read in a later round, when the others may count no more
    assert re.search(r"Your model learns (with|from)|your model learned from your own rows alone", with_whom)
    why = at_a.locator("#card-why").inner_text()
    assert "how far astray its training goes" in why
    assert re.search(r"The rows of [bcd] look most like yours", why)
    assert re.search("No column of [bcd] differs|Compared with you, [bcd] differs most in", why)
    gain = at_a.locator("#card-gain").inner_text()
    assert "95 % interval" in gain
    assert re.search(r"accuracy: \S+\s% together, \S+\s% alone, on your \d+ test rows", gain)
    given = at_a.locator("#answer-given").inner_text()
    assert re.search(r"\d+ models trained on your rows left you", given)
    assert "No row left you" in at_a.locator("#said-given").inner_text()

    # it goes on by itself
    seen = now(at_a)
    wait_until(lambda: now(at_a) > seen + 3)

    # the same as the lead has it, and nothing of other sites' figures
    at_a.locator("#table-with summary").click()
    driver.ask_to_end()
    driver.wait(LONG)
    record = read_record(ward.folder / "together")
    (folder,) = [p for p in (ward.kits["a"] / "state" / "shown").iterdir() if "weight-erosion" in config(p)]
    mine = read_record(folder)
    me = record.clients.index("a")
    for r in list(mine.weights)[-3:]:
        assert mine.weights[r][me].tolist() == record.weights[r][me].tolist()
    for line in mine.metrics:
        values = line["scores"]["own/test"]["accuracy"]
        assert [v is not None for v in values] == [i == me for i in range(len(record.clients))]


def now(page) -> int:
    return int(re.search(r"round (\d+) of", page.locator("#standing").inner_text())[1])


def config(folder) -> str:
    return (folder / "config.toml").read_text()


def test_a_site_says_yes_or_no_on_its_page(ward, at_a):
    """An offer of a circle waits on the page; the answer is in the site's own file."""
    state = ward.kits["a"] / "state"
    offer = {"requester": "b", "run": "x" * 32, "lead": "lead", "site": "a", "share": 0.25, "others": 2}
    when = dict.fromkeys(("first", "last"), time.strftime("%FT%T"))
    offer |= {"leverage": 0.3, "outcome": "joined", **when}
    (state / "offers.jsonl").write_text(json.dumps(offer) + "\n")
    asked = {"time": "2026-01-01T00:00:00+0000", "by": "lead", "run": None, "asked": "whether it is there"}
    with (state / "asked.jsonl").open("a") as file:
        file.write(json.dumps({**asked, "outcome": "done"}) + "\n")
    at_a.reload()
    assert "lead: whether it is there – done" in at_a.locator("#asked").text_content()
    offers = at_a.locator("#offers")
    assert "b would have your model in its circle" in offers.inner_text()
    offers.get_by_role("button", name="No").click()
    offers.get_by_text("you said no").wait_for()
    said = [json.loads(line) for line in (state / "decisions.jsonl").read_text().splitlines()]
    assert [(one["kind"], one["requester"], one["allow"]) for one in said] == [("veto", "b", False)]
    offers.get_by_role("button", name="Yes").click()
    offers.get_by_text("you said yes").wait_for()
    (state / "decisions.jsonl").unlink()
    (state / "offers.jsonl").unlink()


def test_other_machines_are_served_by_tls_with_the_sites_own_certificate(hosts_of, ward, tmp_path):
    """On a host of its own, whose address is not loopback's: who looks there for the site finds the site."""
    hosts = hosts_of("a")
    host = hosts.address("a")
    words = [*COTERIE, "page", ward.kits["a"], "--host", host, "--port", "0"]
    place = hosts.run("a", words, {"XDG_STATE_HOME": str(tmp_path)})
    address = place.wait_for("page: ", LONG).split("page: ")[1].strip()
    assert address.startswith(f"https://{host}:")
    port = int(re.search(r":(\d+)/", address)[1])
    context = ssl.create_default_context(cafile=str(ward.kits["a"] / "ca.crt"))
    with (
        socket.create_connection((host, port), 20) as line,
        context.wrap_socket(line, server_hostname="a") as sealed,  # which fails if the name is another's
    ):
        sealed.sendall(f"GET {address.partition(str(port))[2]} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = sealed.recv(1 << 16).decode().lower()
    assert answer.startswith("http/1.1 303")
    assert re.search(r"set-cookie: .*; secure", answer)
    with pytest.raises(ssl.SSLError), socket.create_connection((host, port), 20) as line:
        ssl.create_default_context().wrap_socket(line, server_hostname="a")  # who does not know the authority
