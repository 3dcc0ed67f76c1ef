"""The page as people use it, in a real browser."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from importlib.resources import files

import pytest
from pages import TOKEN, Growing, entry, opened, served, tab

from coterie.cli.main import main
from coterie.features.similarity.record import similarity_of
from coterie.page.library import library_of
from coterie.runs.folder import read_record

CARDS = ("with", "why", "gain", "given")
STUDY = "/run/{}/north?label=weight-erosion"


@pytest.fixture
def north(page, site, runs):
    """North's page of the study."""
    return opened(page, site, STUDY.format(entry(runs, "study")))


def drawn(page, key):
    """A figure, seen and drawn."""
    figure = page.locator(f"#figure-{key}")
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg").first.wait_for()
    return figure


def test_from_the_printed_address_to_four_answers(page, site, runs):
    opened(page, site)
    assert page.url == f"{site}/"  # the token is not in it any more
    page.get_by_role("link", name="study").click()
    page.get_by_role("link", name="north").click()
    for key in CARDS:
        card = page.locator(f"#card-{key}")
        assert card.get_by_role("heading").first.inner_text()
        assert len(card.locator(".answer").inner_text()) > 20


def test_every_card_has_a_picture_a_table_an_explanation_and_files(north):
    for key, picture in zip(CARDS, ("with-rounds", "why-rounds", "gain-rounds", "given-to"), strict=True):
        figure = drawn(north, picture)
        card = north.locator(f"#card-{key}")
        card.get_by_text("The same as a table").click()
        assert card.locator("tbody tr").first.is_visible()
        card.get_by_text("How is this computed?").click()
        assert card.locator(f"#method-{key} p").first.is_visible()
        with north.expect_download() as file:
            card.get_by_text("Download as CSV").click()
        assert file.value.suggested_filename == f"{key}-north.csv"
        with north.expect_download() as file:
            figure.get_by_text("Save as PNG").click()
        assert file.value.path().read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_menu_changes_a_picture(north):
    figure = drawn(north, "given-to")
    before = figure.locator(".xtitle").first.text_content()
    figure.get_by_label("Show").select_option("1")
    assert figure.locator(".xtitle").first.text_content() != before


def test_the_threshold_moves_with_the_keys_and_is_kept_for_predictions(north, runs, made, capsys):
    slider = north.locator("#cut")
    slider.focus()
    for _ in range(20):
        north.keyboard.press("ArrowLeft")
    assert north.locator("#cut-at").inner_text() == "30%"
    record = read_record(runs / "study" / "weight-erosion" / "seed-0")
    p, y = record.probabilities().of(record.clients.index("north"))
    found = (p[y == 1, 1] >= 0.3).mean()
    assert f"{100 * found:.0f}%" in north.locator("#cut-table tbody tr").first.inner_text()
    north.get_by_role("button", name="Keep this threshold").click()
    north.locator("#decided").get_by_text("yes is said from a probability of 30").wait_for()
    folder, table = runs / "study" / "weight-erosion" / "seed-0", made.parent / "site0.csv"
    capsys.readouterr()
    assert main(["predict", str(folder), str(table), "--client", "north"]) == 0
    shown = capsys.readouterr()
    rows = [line.split(",") for line in shown.out.splitlines()[1:]]
    assert rows
    assert all((row[1] == "yes") == (float(row[3]) >= 0.3) for row in rows)


def test_a_partner_is_left_out_a_column_forbidden_and_the_run_begins_again(north, runs):
    boxes = north.locator("#decide-partner")
    boxes.get_by_label("west").uncheck()
    boxes.get_by_role("button").click()
    north.locator("#decided").get_by_text("west is left out").wait_for()
    north.locator("#decide-column").get_by_label("Column").select_option("weight <i>")
    north.locator("#decide-column").get_by_role("button").click()
    north.locator("#decided").get_by_text("column weight <i> is forbidden").wait_for()
    north.locator("#decide-again").get_by_role("button").click()
    north.wait_for_url("**/run/*/north", timeout=90_000)
    north.get_by_text("finished").first.wait_for(timeout=90_000)
    record = read_record(runs / "study-again")
    assert record.about["again"]["client"] == "north"
    assert "weight <i>" not in record.about["features"]
    assert all((w[:, record.clients.index("west")][[0, 1, 2]] == 0).all() for w in record.weights.values())
    lines = [json.loads(x) for p in runs.rglob("decisions.jsonl") for x in p.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["partner", "column", "again"]


def test_a_published_circle_is_approved_smaller_and_an_owner_says_no(page, site, runs):
    opened(page, site, f"/run/{entry(runs, 'circles')}/north")
    circle = page.locator("#decide-circle")
    names = circle.locator("label").all_inner_texts()
    assert len(names) == 2  # as the ranking published it
    circle.get_by_label(names[0].strip()).uncheck()
    circle.get_by_role("button").click()
    page.locator("#decided").get_by_text("is approved").wait_for()
    veto = page.locator("#decide-veto")
    veto.get_by_label("south").uncheck()
    veto.get_by_role("button").click()
    page.locator("#decided").get_by_text("not in the circle of south").wait_for()
    lines = [json.loads(x) for x in (runs / "circles" / "decisions.jsonl").read_text().splitlines()]
    assert lines[0]["among"] == [names[1].strip()]
    assert (lines[1]["requester"], lines[1]["allow"]) == ("south", False)


def test_rounds_arrive_while_a_run_goes_on(page, made, tmp_path):
    run = Growing(made / "study" / "weight-erosion" / "seed-0", tmp_path / "runs" / "live")
    with served(library_of([str(tmp_path / "runs")])) as address:
        opened(page, address, f"/run/{entry(tmp_path / 'runs', 'live')}/north")
        page.get_by_text("round 1 of 6").wait_for()
        page.get_by_text("The same as a table").first.click()
        drawn(page, "with-rounds")
        before = page.locator("#rows-with").inner_text()
        run.more(3)
        page.get_by_text("round 4 of 6").wait_for()
        assert page.locator("#heard").inner_text() == ""  # a round is no news to who only listens
        canvas, seen = page.locator("#figure-with-rounds .canvas"), "node => node.data[0].x"
        deadline = time.monotonic() + 30
        while canvas.evaluate(seen) != [1, 2, 3, 4] and time.monotonic() < deadline:
            page.wait_for_timeout(100)
        assert canvas.evaluate(seen) == [1, 2, 3, 4]
        assert page.locator("#rows-with").inner_text() != before
        assert page.locator("#table-with").get_attribute("open") is not None  # nobody lost their place
        run.end()
        page.locator("#heard", has_text="stopped").wait_for(state="attached")
        assert "stopped" in page.locator("#standing").inner_text()
        page.goto("about:blank")


def test_a_run_that_begins_appears_in_the_list_of_all(page, made, runs):
    """And who has ticked or filtered something finds it as it was."""
    with served(library_of([str(runs)])) as address:
        opened(page, address)
        page.get_by_label("choose study").check()
        page.get_by_label("Filter").fill("weight-erosion")
        run = Growing(made / "study" / "weight-erosion" / "seed-0", runs / "begun")
        row = page.locator("#gallery tbody tr", has_text="begun")
        row.get_by_text("running").wait_for()
        assert page.get_by_label("choose study").is_checked()
        assert page.locator("#found").inner_text() == "2 of 5 shown"
        run.end()
        row.get_by_text("stopped").wait_for()
        page.goto("about:blank")


def test_a_page_survives_its_server(page, runs, tmp_path):
    """Killed in the middle, started again on the same port: the page that is open goes on."""
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def start():
        words = [sys.executable, "-m", "coterie", "page", str(runs), "--port", port]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        )
        return process, process.stdout.readline().split("page: ")[1].strip()

    process, address = start()
    try:
        page.goto(address)
        page.get_by_role("link", name="study").click()
        page.locator("#standing").wait_for()
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.get_by_text("The line to the page's server is gone").wait_for()
        process, again = start()
        assert again == address  # the same token
        page.get_by_text("The line to the page's server is gone").wait_for(state="detached")
        page.get_by_role("link", name="north").click()
        page.locator("#card-with").wait_for()
    finally:
        page.goto("about:blank")
        process.kill()
        process.wait()
    page.troubles[:] = [t for t in page.troubles if "ERR_" not in t]  # the browser's word for a dead line


def test_a_wrong_token_sees_nothing(page, site):
    page.goto(f"{site}/?token=wrong")
    assert "Who are you?" in page.content()
    page.wait_for_timeout(300)  # the console's word of it comes by itself
    page.troubles[:] = [t for t in page.troubles if "401" not in t]


def test_the_gallery_is_filtered_and_put_side_by_side(page, site):
    opened(page, site)
    rows = page.locator("#gallery tbody tr:visible")
    assert rows.count() == 4
    page.get_by_label("Filter").fill("weight-erosion")
    assert rows.count() == 1
    page.get_by_label("Filter").fill("")
    page.locator("#kind").select_option("run")
    assert rows.count() == 2
    page.locator("#kind").select_option("")
    page.get_by_label("choose study").check()
    page.get_by_label("choose circles").check()
    page.get_by_role("button", name="Put side by side").click()
    page.get_by_role("heading", name="Summary").first.wait_for()
    assert page.get_by_text("ndoye (circles)").count()
    assert page.get_by_text("weight-erosion (study)").count()
    page.locator("figure[data-plot]").first.scroll_into_view_if_needed()
    page.locator("figure[data-drawn]").first.wait_for(state="attached")


def test_the_data_are_shown_column_by_column(page, site, runs):
    opened(page, site, f"/data/{entry(runs, 'study')}")
    assert "weight <i>" in page.locator("#quality").text_content()
    assert page.locator("#similarity figure").count() >= 3
    assert page.locator("#sizes figure").count() == 2


def test_a_client_sees_its_own_data_and_in_which_columns_others_differ(page, site, runs):
    opened(page, site, f"/run/{entry(runs, 'study')}/north?lang=fr")
    page.get_by_role("link", name="Les données").click()
    found = similarity_of(read_record(runs / "alike"))
    me, west = found.sites.index("north"), found.sites.index("west")
    most = int(found.terms[me, west].argmax())
    row = page.locator("#similarity tbody tr", has_text=found.columns[most])
    assert found.columns[most] == "weight <i>"
    assert f"{found.terms[me, west, most]:.1f}".replace(".", ",") in row.inner_text()
    figure = drawn(page, "why-columns")
    figure.get_by_label("Afficher").select_option("west")
    assert figure.locator(".canvas").evaluate("node => node.data[0].y[0]") == "weight &lt;i&gt;"
    kept = json.loads((runs / "looked" / "quality.json").read_bytes())["findings"]
    rows = page.locator("#quality table.wraps tbody tr")
    assert rows.count() == sum(f["site"] == "north" for f in kept)
    cells = page.locator("#sizes tr", has_text="north").locator("td").all_inner_texts()
    assert list(map(int, cells)) == [63, 0, 27]


def test_another_language_stays(page, site, runs):
    opened(page, site, STUDY.format(entry(runs, "study")))
    page.get_by_role("link", name="Français").click()
    assert page.locator("html").get_attribute("lang") == "fr"
    assert page.locator("#title-with").inner_text().startswith("Avec qui")
    page.goto(page.url.partition("?")[0])
    assert page.locator("#title-with").inner_text().startswith("Avec qui")


AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_nobody_is_kept_out(browser, site, runs, scheme, width):
    """axe-core finds nothing, and nothing is wider than a phone."""
    study, circles = (entry(runs, name) for name in ("study", "circles"))
    with tab(browser, color_scheme=scheme, viewport={"width": width, "height": 844}) as page:
        paths = ["/", STUDY.format(study), f"/run/{study}", f"/run/{circles}/west", f"/run/{study}/west/data"]
        for path in [*paths, f"/data/{study}", f"/report/{study}"]:
            opened(page, site, path)
            for figure in page.locator("figure[data-plot]").all()[:3]:
                figure.scroll_into_view_if_needed()
            page.wait_for_timeout(300)
            page.evaluate(AXE)
            found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
            told = [(v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found]
            assert not told, (path, told)
            if path in paths:
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_all_of_it_is_reached_with_the_keyboard(north):
    """From the top: a link past the head, then each control, all of them seen when they have the focus."""
    north.keyboard.press("Tab")
    assert north.evaluate("document.activeElement.className") == "skip"
    north.keyboard.press("Enter")
    seen = set()
    for _ in range(60):
        north.keyboard.press("Tab")
        seen.add(north.evaluate("document.activeElement.closest('[id]')?.id ?? ''"))
        box = north.evaluate(
            "(({width, height}) => [width, height])(document.activeElement.getBoundingClientRect())"
        )
        assert all(side > 0 for side in box)
    assert {"table-with", "how-given", "cut", "decide-partner", "keep-cut"} <= seen


def test_printing_is_on_white_without_buttons(north):
    drawn(north, "with-rounds")
    north.emulate_media(media="print", color_scheme="dark")
    assert north.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not north.locator("#decide-partner button").is_visible()
    assert north.locator("#answer-with").is_visible()


def test_a_thousand_rounds_and_a_hundred_sites_stay_fluid(page, made, tmp_path):
    """A run of that size: its page opens and a picture is drawn in seconds, and news cost little."""
    grown(made / "study" / "weight-erosion" / "seed-0", tmp_path / "runs" / "large", 100, 1000)
    with served(library_of([str(tmp_path / "runs")])) as address:
        opened(page, address, f"/run/{entry(tmp_path / 'runs', 'large')}/site 7")
        page.get_by_text("round 1,000 of 1,000").wait_for()
        drawn(page, "with-rounds")
        took = page.evaluate(
            """async () => {
                const begun = performance.now();
                const answer = await fetch(document.getElementById("cards").dataset.refresh);
                await answer.text();
                return performance.now() - begun;
            }"""
        )
        assert (
            took < 3000
        )  # of a version that was made before: far less, on a machine with nothing else to do
        points = page.locator("#figure-with-rounds .canvas").evaluate("node => node.data.length")
        assert points <= 10
        page.goto("about:blank")


def grown(run, folder, sites, rounds):
    """A run's folder with as many sites and rounds, all alike."""
    import shutil

    import numpy as np

    from coterie.storage.rounds import matrix_told as told

    shutil.copytree(
        run, folder, ignore=shutil.ignore_patterns("*.npz", "models*", "report*", ".lock", "sites")
    )
    about = json.loads((folder / "run.json").read_text())
    about["clients"] = [{**about["clients"][0], "name": f"site {i}"} for i in range(sites)]
    (folder / "run.json").write_text(json.dumps(about))
    config = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(config.replace("rounds = 6", f"rounds = {rounds}"))
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])

    def wide(value):
        if isinstance(value, dict):
            return {k: wide(v) for k, v in value.items()}
        return [value[0]] * sites if isinstance(value, list) and len(value) == 4 else value

    line, rng = wide(last), np.random.default_rng(0)
    timing = json.loads((folder / "timings.jsonl").read_text().splitlines()[1])
    weights = rng.dirichlet(np.ones(sites), size=(20, sites)).astype(np.float32)
    passed = np.array([[i, sites, 1, 128, 2] for i in range(sites)])
    with (folder / "metrics.jsonl").open("w") as metrics, (folder / "timings.jsonl").open("w") as timings:
        for r in range(rounds + 1):
            metrics.write(json.dumps({**line, "round": r}) + "\n")
            timings.write(json.dumps({**timing, "round": r}) + "\n")
    matrices, traffic = [json.dumps(told(w)) for w in weights], json.dumps(told(passed))
    with (folder / "collaboration.jsonl").open("w") as file:
        for r in range(1, rounds + 1):
            matrix = matrices[r % 20]
            entry = f'"weights": {matrix}, "traffic": {traffic}, "matrices/alpha": {matrix}'
            file.write(f'{{"round": {r}, {entry}}}\n')


def test_the_token_is_in_no_file_of_a_run(runs):
    assert not [p for p in runs.rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]
