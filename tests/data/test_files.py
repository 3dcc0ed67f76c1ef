"""Published files: found, checked, fetched, or refused in one line."""

from __future__ import annotations

import functools
import os
import socket
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coterie.core.errors import BadData, BadInput
from coterie.data import downloads
from coterie.data.downloads import PublishedFile

ABC_MD5 = "md5:900150983cd24fb0d6963f7d28e17f72"
ABC_SHA256 = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
EMPTY_MD5 = "md5:d41d8cd98f00b204e9800998ecf8427e"
ABC = PublishedFile("abc.txt", ABC_MD5, "http://127.0.0.1:9/abc.txt")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The data folder and the cache folder, both empty."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("COTERIE_DATA", str(data))
    monkeypatch.setattr(downloads.pooch, "os_cache", lambda name: cache)
    return data, cache


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server on this machine; gives its address and the folder it serves."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    web = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{web.server_address[1]}", folder
    web.shutdown()
    web.server_close()


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def everything_below(*folders: Path) -> list[Path]:
    return [path for folder in folders if folder.exists() for path in folder.rglob("*")]


def refused(what, *args, **kwargs) -> str:
    with pytest.raises((BadData, BadInput)) as caught:
        what(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def never(url: str, path: Path) -> None:
    raise AssertionError("nothing was to be fetched")


def test_checksums_of_known_texts(tmp_path):
    assert downloads.digest(put(tmp_path / "a", b"abc"), "md5") == ABC_MD5
    assert downloads.digest(tmp_path / "a", "sha256") == ABC_SHA256
    assert downloads.digest(put(tmp_path / "b", b""), "md5") == EMPTY_MD5


def test_the_data_folder_comes_before_the_cache(places):
    data, cache = places
    in_cache = put(cache / "set" / "abc.txt", b"abc")
    assert downloads.obtain([ABC], ["set"], never) == [in_cache]
    in_data = put(data / "other" / "abc.txt", b"abc")
    assert downloads.obtain([ABC], ["set", "other"], never) == [in_data]


def test_without_a_data_folder_the_cache_is_used(places, monkeypatch):
    _, cache = places
    monkeypatch.delenv("COTERIE_DATA")
    assert downloads.roots() == [cache]
    assert downloads.store("set") == cache / "set"


def test_a_data_folder_that_is_none_is_refused(places, monkeypatch):
    monkeypatch.setenv("COTERIE_DATA", str(places[0] / "nowhere"))
    said = refused(downloads.find, ABC, ["set"])
    assert str(places[0] / "nowhere") in said
    assert "create it or unset COTERIE_DATA" in said


def test_a_damaged_file_names_both_sums_and_the_remedy(places):
    path = put(places[0] / "set" / "abc.txt", b"")
    said = refused(downloads.obtain, [ABC], ["set"], never)
    assert str(path) in said
    assert f"expected {ABC_MD5}, found {EMPTY_MD5}" in said
    assert "delete it" in said
    assert path.exists()


def test_a_file_that_changes_is_checked_again(tmp_path):
    path = put(tmp_path / "a", b"abc")
    downloads.check(path, ABC_MD5)
    hits = downloads._digest.cache_info().hits
    downloads.check(path, ABC_MD5)
    assert downloads._digest.cache_info().hits == hits + 1
    path.write_bytes(b"abd")
    os.utime(path, ns=(0, 0))
    refused(downloads.check, path, ABC_MD5)


def test_a_missing_file_is_fetched_checked_and_kept(places, server):
    address, served = server
    put(served / "abc.txt", b"abc")
    file = PublishedFile("abc.txt", ABC_SHA256, f"{address}/abc.txt")
    [path] = downloads.obtain([file], ["set"])
    assert path == places[0] / "set" / "abc.txt"
    assert path.read_bytes() == b"abc"
    assert everything_below(places[0] / "set") == [path]
    assert downloads.obtain([file], ["set"], never) == [path]


def test_what_arrives_with_a_wrong_sum_is_not_kept(places, server):
    address, served = server
    put(served / "abc.txt", b"")
    said = refused(downloads.obtain, [PublishedFile("abc.txt", ABC_MD5, f"{address}/abc.txt")], ["set"])
    assert f"expected {ABC_MD5}, found {EMPTY_MD5}" in said
    assert everything_below(*places) == []


def test_an_address_without_the_file_is_named(places, server):
    url = f"{server[0]}/abc.txt"
    said = refused(downloads.obtain, [PublishedFile("abc.txt", ABC_MD5, url)], ["set"])
    assert url in said
    assert "HTTP 404" in said
    assert everything_below(*places) == []


def test_without_a_network_one_line_says_what_to_put_where(places):
    with socket.socket() as unused:  # bound but not listening: every connection is refused at once
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        missing = [PublishedFile(n, ABC_MD5, url + n) for n in ("a.gz", "b.gz")]
        said = refused(downloads.obtain, missing, ["set", "other"])
    assert "a.gz, b.gz not at hand" in said
    assert f"{url}a.gz could not be fetched (no network: ConnectionError)" in said
    assert f"put them into {places[0] / 'set'}, or set COTERIE_DATA" in said
    assert everything_below(*places) == []


def test_an_interrupted_fetch_leaves_nothing_behind(places):
    def half(url, path):
        path.write_bytes(b"a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        downloads.obtain([ABC], ["set"], half)
    assert everything_below(*places) == []


def test_a_failed_fetch_keeps_what_was_there_before(places):
    def full(url, path):
        raise OSError(28, "No space left on device")

    there = put(places[0] / "set" / "other.txt", b"abc")
    assert "(No space left on device)" in refused(downloads.obtain, [ABC], ["set"], full)
    assert everything_below(places[0] / "set") == [there]


def test_a_read_only_data_folder_is_read_but_not_written(places):
    data, cache = places
    data.chmod(0o555)
    try:
        assert downloads.store("set") == cache / "set"
        assert downloads.obtain([ABC], ["set"], lambda url, path: put(path, b"abc")) == [
            cache / "set" / "abc.txt"
        ]
        assert everything_below(data) == []
    finally:
        data.chmod(0o755)
