"""Who sees the page, and what it answers, without a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import re
from urllib.parse import urlencode, urlsplit

import pytest
from pages import SITES, TOKEN, entry, served

from coterie.core.errors import BadInput
from coterie.page.library import library_of
from coterie.page.serve import Where, token_of

MOST = 300_000  # bytes of a first view, packed, without figures


def ask(address, path="/", method="GET", token=TOKEN, body=None, **headers):
    """(status, headers, text), of a client that keeps the cookie; `token` None has none."""
    where = urlsplit(address)
    line = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    told = {"Accept-Encoding": "gzip", **{k.replace("_", "-"): v for k, v in headers.items()}}
    if token is not None:
        told["Cookie"] = f"coterie-{where.port}={token}"
    line.request(method, path, body, told)
    answer = line.getresponse()
    data = answer.read()
    found = {k.lower(): v for k, v in answer.getheaders()}
    size = len(data)
    if found.get("content-encoding") == "gzip":
        data = gzip.decompress(data)
    line.close()
    return answer.status, {**found, "size": size}, data.decode(errors="replace")


def post(address, path, form, origin=None):
    headers = {"Content_Type": "application/x-www-form-urlencoded", "Origin": origin or address}
    return ask(address, path, "POST", body=urlencode(form, doseq=True), **headers)


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x"])
@pytest.mark.parametrize("path", ["/", "/static/page.js", "/report/x", "/news/x", "/nothing"])
def test_without_the_token_there_is_nothing_to_see(site, token, path):
    status, headers, text = ask(site, path, token=token)
    assert status == 401
    assert "set-cookie" not in headers
    assert all(name not in text for name in (*SITES, "study"))


def test_a_wrong_token_in_the_address_is_refused_even_with_a_cookie(site):
    assert ask(site, "/?token=wrong")[0] == 401


def test_the_address_gives_a_cookie_and_hides_the_token(site):
    status, headers, _ = ask(site, f"/side?id=x&token={TOKEN}", token=None)
    assert (status, headers["location"]) == (303, "/side?id=x")
    cookie = headers["set-cookie"]
    assert {"httponly", "samesite=lax"} <= {part.strip().lower() for part in cookie.split(";")}


@pytest.mark.parametrize("host", ["evil.example.org", "127.0.0.1.evil.org", "[::2]:80", ""])
def test_another_name_for_this_machine_is_refused(site, host):
    assert ask(site, "/", Host=host)[0] == 400


@pytest.mark.parametrize("origin", ["http://evil.example.org", "null", "http://127.0.0.1:1"])
def test_a_form_of_another_page_is_refused(site, runs, origin):
    path = f"/run/{entry(runs, 'study')}/north/decide"
    assert post(site, path, {"kind": "partner"}, origin)[0] == 403
    assert not list(runs.rglob("decisions.jsonl"))


def test_a_browser_is_told_to_load_nothing_from_elsewhere(site, runs):
    for path in ("/", f"/run/{entry(runs, 'study')}/north", f"/report/{entry(runs, 'study')}"):
        _, headers, text = ask(site, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        empty = base64.b64encode(hashlib.sha256(b"").digest()).decode()
        assert "unsafe" not in policy.replace(f"'unsafe-hashes' 'sha256-{empty}'", "")
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]*(?:src=|application/json))", text)
        assert not re.search(r"\sstyle=|\son\w+=|javascript:", text)
        assert TOKEN not in text


def test_names_are_shown_as_they_are_and_never_read_as_tags(site, runs):
    study = entry(runs, "study")
    for path in ("north", "east%20%3Cb%3E%26", "east%20%3Cb%3E%26/cards"):
        text = ask(site, f"/run/{study}/{path}?label=weight-erosion")[2]
        assert "east &lt;b&gt;&amp;" in text
        assert not re.search(r"<b>|<i>", text)


def test_a_first_view_is_small(site, runs):
    """The page of a client, and what it loads before a figure is seen."""
    path = f"/run/{entry(runs, 'study')}/north"
    first = ask(site, path)
    files = [first[1]["size"]]
    for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', first[2]):
        files.append(ask(site, name)[1]["size"])
    assert len(files) == 7
    assert sum(files) < MOST / 4
    assert "plotly.js" not in "".join(re.findall(r'src="[^"]+"', first[2]))


def test_tables_and_letters_are_files(site, runs):
    study = entry(runs, "study")
    for key in ("with", "why", "gain", "given"):
        status, headers, text = ask(site, f"/run/{study}/north/card/{key}.csv?label=weight-erosion")
        assert (status, headers["content-type"]) == (200, "text/csv; charset=utf-8")
        assert headers["content-disposition"] == f'attachment; filename="{key}-north.csv"'
        assert len(text.splitlines()) > 3
    status, headers, text = ask(site, f"/run/{study}/north/letter/west?label=weight-erosion")
    assert status == 200
    assert "To west, from north" in text


@pytest.mark.parametrize(
    "path",
    ["/run/none", "/run/{id}/nobody", "/run/{id}/north?label=none", "/run/{id}/north/card/x.csv",
     "/run/{id}/north/letter/nobody", "/run/{id}/north/letter/north", "/static/..%2fapp.py", "/news/none"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(site, runs, path):
    assert ask(site, path.format(id=entry(runs, "study")))[0] == 404


def test_a_folder_that_cannot_be_read_is_said_in_a_line(site, runs):
    (runs / "circles" / "run.json").write_text("{")
    status, _, text = ask(site, f"/run/{entry(runs, 'circles')}")
    assert status == 409
    assert "run.json is damaged" in text
    assert ask(site, "/")[0] == 200  # the others are still there


def test_a_form_that_is_too_large_is_refused(site, runs):
    path = f"/run/{entry(runs, 'study')}/north/decide"
    assert post(site, path, {"kind": "partner", "in": ["x" * 1000] * 100})[0] == 413


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"kind": "nonsense"}, "nothing that can be decided"),
        ({"kind": "column", "column": "nothing", "rule": "forbid"}, "unknown column"),
        ({"kind": "column", "column": "age", "rule": "maybe"}, "unknown rule"),
        ({"kind": "threshold", "class": "yes", "at": "much"}, "no probability"),
        ({"kind": "threshold", "class": "perhaps", "at": "0.3"}, "unknown class"),
        ({"kind": "circle", "among": ["north"]}, "the client itself"),
        ({"kind": "again"}, "nothing"),
    ],
)
def test_a_mistake_in_a_decision_is_said_and_nothing_is_written(site, runs, form, said):
    status, _, text = post(site, f"/run/{entry(runs, 'study')}/north/decide?label=weight-erosion", form)
    assert status == 422
    assert said in text.lower()
    assert not list(runs.rglob("decisions.jsonl"))
    assert not list(runs.rglob("cuts.json"))


def test_a_page_is_not_sent_twice_if_nothing_is_new(site, runs):
    path = f"/run/{entry(runs, 'study')}/north/cards?label=fedavg"
    status, headers, _ = ask(site, path)
    assert status == 200
    assert ask(site, path, If_None_Match=headers["etag"])[0] == 304


def test_the_gallery_lists_all_that_there_is(site):
    text = ask(site, "/")[2]
    for name in ("study", "circles", "alike", "looked"):
        assert f">{name}</a>" in text


def test_side_by_side_puts_runs_on_the_same_rows_into_one_table(site, runs):
    ids = [entry(runs, name) for name in ("study", "circles")]
    text = ask(site, f"/side?id={ids[0]}&id={ids[1]}")[2]
    assert "study · circles" in text
    assert "ndoye (circles)" in text
    assert "weight-erosion (study)" in text


def test_the_token_stays_after_a_restart_and_is_for_its_owner_alone(tmp_path):
    first = token_of(tmp_path / "x")
    assert token_of(tmp_path / "x") == first
    file = tmp_path / "x" / "page-token"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)  # somebody else may have read it
    assert token_of(tmp_path / "x") != first


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (Where(host="0.0.0.0"), "needs TLS with a party's certificate"),
        (Where(host="192.0.2.1"), "needs TLS with a party's certificate"),
        (Where(port=70000), "must lie in"),
    ],
)
def test_other_machines_are_not_served_without_tls(where, said):
    with pytest.raises(BadInput, match=said):
        where.check()


def test_a_place_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no folder"):
        library_of([str(tmp_path / "none")])
    with served(library_of([str(tmp_path)])) as address:
        assert "There are no runs here yet" in ask(address)[2]


def test_advice_is_shown_as_its_own_page_has_it(tmp_path, made):
    from coterie.cli.main import main

    recipe = made.parent / "recipe.toml"
    words = ["advise", "--recipe", str(recipe), "--requester", "north", "--candidates", "fedavg"]
    assert main([*words, "--folds", "2", "--inner", "0", "--rounds", "2", "--out", str(tmp_path / "a")]) == 0
    with served(library_of([str(tmp_path)])) as address:
        text = ask(address, f"/run/{entry(tmp_path, 'a')}")[2]
        told = json.loads((tmp_path / "a" / "advice.json").read_text())["answers"][0]
        assert told["client"] in text
        assert ("Stay alone" in text) == (told["choice"] == "local")


@pytest.mark.parametrize(("language", "remedy"), [("en", "look them up"), ("fr", "vérifiez"), ("de", "nach")])
def test_what_a_check_found_is_told_in_the_reader_s_language(site, runs, language, remedy):
    text = ask(site, f"/run/{entry(runs, 'study')}/north/data?lang={language}")[2]
    quality = text[text.index('id="quality"') : text.index('id="similarity"')]
    assert remedy in quality
    assert ("look them up" in quality) == (language == "en")
