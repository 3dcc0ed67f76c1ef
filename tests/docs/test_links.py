"""Every link between the project's pages leads to a file, and to a heading if it names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Those that headings get: links and marks away, everything else in small letters, spaces as dashes."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def lost(page: Path) -> list[str]:
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert lost(page) == []
    assert not re.search(r"^(<{7} |>{7} |={7}$)", page.read_text(), flags=re.MULTILINE), "a merge left marks"


def test_every_page_is_in_the_list_of_pages():
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if ROOT / "docs" in page.parents}
    ours = {page for page in pages if not page.startswith("results/")} - {"README.md"}
    assert [page for page in sorted(ours) if f"]({page})" not in index] == []


def test_the_check_can_fail(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One `thing`, said\n[a](#one-thing-said) [b](#another) [c](nowhere.md) [d](page.md#one)\n"
    )
    assert lost(page) == ["#another", "nowhere.md", "page.md#one"]
