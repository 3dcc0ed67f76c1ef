"""Published files: found, checked, or else fetched.

A file is looked for in the folder that COTERIE_DATA names, then in the user's cache folder, and else
fetched into the first of the two that can be written. Its checksum decides before anything is read, wherever
it came from; a fetched file gets its name only once the sum is right, so nothing half-written stays behind.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pooch

from coterie.core.errors import BadData, BadInput

VARIABLE = "COTERIE_DATA"
CONNECT_SECONDS, SILENCE_SECONDS = 5, 30

Fetch = Callable[[str, Path], None]


@dataclass(frozen=True)
class PublishedFile:
    """A file as it was published: its name, its checksum ("md5:..." or "sha256:...") and its address."""

    name: str
    checksum: str
    url: str


def roots() -> list[Path]:
    """The folders to look in, first things first."""
    cache = Path(pooch.os_cache("coterie"))
    named = os.environ.get(VARIABLE)
    if not named:
        return [cache]
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise BadInput(f"{VARIABLE} is {named}, which is not a folder: create it or unset {VARIABLE}")
    return [folder, cache]


def store(folder: str) -> Path:
    """Where new files of this folder go: below the first root that can be written."""
    places = roots()
    return next((root for root in places if _writable(root)), places[-1]) / folder


def find(file: PublishedFile, folders: Sequence[str]) -> Path | None:
    """The file, not yet checked, in any of these folders of any root."""
    places = [root / folder / file.name for root in roots() for folder in folders]
    return next((path for path in places if path.is_file()), None)


def at_hand(files: Sequence[PublishedFile], folders: Sequence[str]) -> bool:
    """Whether every one of the files is there; damage shows when they are read."""
    return all(find(file, folders) is not None for file in files)


def obtain(files: Sequence[PublishedFile], folders: Sequence[str], fetch: Fetch | None = None) -> list[Path]:
    """A checked path for each file; those that are missing are fetched into the first folder."""
    found = [find(file, folders) for file in files]
    for path, file in zip(found, files, strict=True):
        if path is not None:
            check(path, file.checksum)
    missing = [file for path, file in zip(found, files, strict=True) if path is None]
    target = store(folders[0])
    for file in missing:
        try:
            _download(file, target, fetch or http_fetch)
        except OSError as error:
            names = ", ".join(f.name for f in missing)
            raise BadData(
                f"{names} not at hand, and {file.url} could not be fetched ({_reason(error)}): put "
                f"{'it' if len(missing) == 1 else 'them'} into {target}, or set {VARIABLE} to a folder "
                f"with {folders[0]}/ inside"
            ) from None
    return [path or target / file.name for path, file in zip(found, files, strict=True)]


def check(path: Path, checksum: str) -> None:
    """Refuses a file whose sum is not the published one."""
    found = digest(path, checksum.partition(":")[0])
    if found != checksum:
        raise BadData(
            f"{path} is damaged: expected {checksum}, found {found}: delete it, then it is fetched again"
        )


def digest(path: Path, algorithm: str) -> str:
    """A file's checksum as "algorithm:digits"; worked out once a process unless the file changes."""
    try:
        now = path.stat()
        return _digest(path, algorithm, now.st_size, now.st_mtime_ns)
    except OSError as error:
        raise BadData(f"{path} cannot be read ({_reason(error)}): allow reading it, or delete it") from None


@functools.lru_cache(maxsize=1024)
def _digest(path: Path, algorithm: str, size: int, changed: int) -> str:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{found.hexdigest()}"


def _download(file: PublishedFile, folder: Path, fetch: Fetch) -> Path:
    """Fetches under a temporary name, checks the sum, then renames; raises OSError if fetching fails."""
    fresh = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=folder)
    os.close(handle)
    part = Path(name)
    try:
        fetch(file.url, part)
        found = digest(part, file.checksum.partition(":")[0])
        if found != file.checksum:
            raise BadData(
                f"{file.url} gave another {file.name}: expected {file.checksum}, found {found}; "
                f"nothing was kept: try again, or put the right file into {folder}"
            )
        part.chmod(0o644)
        return part.replace(folder / file.name)
    finally:
        part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # folders made for nothing go again; one that holds a file stays
            for place in fresh:
                place.rmdir()


def http_fetch(url: str, path: Path) -> None:
    """One attempt with short timeouts; a bar with the time left if somebody is looking."""
    options = {
        "timeout": (CONNECT_SECONDS, SILENCE_SECONDS),
        "chunk_size": 1 << 16,
        "headers": {"Accept-Encoding": "identity"},  # the bytes as published, else a .gz may come unpacked
    }
    if not sys.stderr.isatty():
        pooch.HTTPDownloader(**options)(url, str(path), None)
        return
    with contextlib.closing(_Bar(url.rpartition("/")[2])) as bar:
        pooch.HTTPDownloader(progressbar=bar, **options)(url, str(path), None)


class _Bar:
    """The little of a tqdm bar that pooch uses, drawn by rich."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.progress.add_task(name, total=None)
        self.progress.start()

    @property
    def total(self) -> float | None:
        return self.progress.tasks[self.task].total

    @total.setter
    def total(self, size: int) -> None:
        self.progress.update(self.task, total=size or None)

    def update(self, size: int) -> None:
        self.progress.advance(self.task, size)

    def reset(self) -> None:
        self.progress.update(self.task, completed=0)

    def close(self) -> None:
        self.progress.stop()


def _writable(folder: Path) -> bool:
    """Whether the folder, or the nearest one above it that exists, can be written.

    A folder marked read-only counts as such for root too, whom the system would let write.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)


def _reason(error: OSError) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    return error.strerror or f"no network: {type(error).__name__}"
