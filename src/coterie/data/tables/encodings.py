"""Bytes of a file as text: UTF-8, or what its recipe says; never another guess in silence."""

from __future__ import annotations

import codecs
import re

from coterie.core.errors import BadData

USUAL = "utf-8"
WESTERN = "cp1252"  # Windows in Western Europe; Latin-1 is the same but for signs such as € and –
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
SEPARATORS = ",;\t|"
CONTROL = re.compile("[\x80-\x9f]")  # no text has them: bytes of another encoding, read as Latin-1
SIGNS = "°²³±·–—’‘“”„…€£§×½¼¾«»®\xa0"
BROKEN = re.compile(r"[^\W\d_](?![’·])[^\x00-\x7f\w\s][^\W\d_]")  # M„dchen: a sign within a word


def known_encoding(name: str) -> bool:
    try:
        b"a".decode(name)
    except UnicodeError:
        return True  # of another width
    except (LookupError, ValueError):
        return False
    return True


def decoded(name: str, content: bytes, encoding: str | None = None) -> str:
    """`encoding` as a recipe has it: empty for the usual one; None where there is no recipe."""
    told = "" if not encoding or codecs.lookup(encoding).name in (USUAL, "utf-8-sig") else encoding
    taken = MARKS.get(content[:2]) or told or "utf-8-sig"
    if told and taken == told and not content.isascii() and fits(content, "utf-8-sig"):
        raise BadData(
            f'{name} is UTF-8 text, and its recipe says encoding = "{told}": take that out of the recipe'
        )
    remedy = "save the file as CSV UTF-8"
    if encoding is not None:
        likely = likely_encoding(content)
        remedy += f', or write encoding = "{likely or told or WESTERN}" into the recipe, if it is that'
    try:
        text = content.decode(taken)
    except UnicodeDecodeError as error:
        place = place_of(content, error.start)
        raise BadData(
            f"{name}, {place}: byte {content[error.start]:#04x} is not "
            f"{taken.removesuffix('-sig').upper()} text: {remedy}"
        ) from None
    if "\0" in text:
        line = text.partition("\0")[0].count("\n") + 1
        raise BadData(f"{name}, line {line}: holds a NUL character, so it is no text: save it as CSV UTF-8")
    if told and (odd := CONTROL.search(text)):
        line = text[: odd.start()].count("\n") + 1
        raise BadData(f"{name}, line {line}: {odd[0]!r} is no letter, so it is not {told} text: {remedy}")
    return text


def place_of(content: bytes, start: int) -> str:
    before = content[:start]
    line, first = before.count(b"\n") + 1, content.partition(b"\n")[0].decode("latin-1")
    column = before.rpartition(b"\n")[2].count(likely_separator(first).encode()) + 1
    return f"line {line}, column {column}"


def fits(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def likely_encoding(content: bytes) -> str:
    """The one of Western Europe where a text is no UTF-8 and reads well so; else empty."""
    if content[:2] in MARKS or b"\0" in content or fits(content, "utf-8-sig") or not fits(content, WESTERN):
        return ""
    text = content.decode(WESTERN)
    strange = [c for c in text if ord(c) > 127 and not c.isalpha() and c not in SIGNS]
    return "" if strange or BROKEN.search(text) else WESTERN


def first_foreign(content: bytes, encoding: str) -> tuple[int, str]:
    """The line and word of the first letter beyond ASCII: by it a person sees whether letters are right."""
    for number, line in enumerate(content.decode(encoding).splitlines(), 1):
        for word in re.findall(r"[^\s,;|]+", line):
            if not word.isascii():
                return number, word
    return 0, ""


def likely_separator(text: str) -> str:
    """The one that divides the header into the most cells; of two alike the more usual."""
    first = header_line(text)
    return max(SEPARATORS, key=lambda s: (first.count(s), -SEPARATORS.index(s)))


def header_line(text: str, look: int = 1 << 12) -> str:
    """The first that is not blank; nothing where all are. As much of the text is looked at as is needed."""
    while True:
        lines = text[:look].splitlines()
        whole = lines if look >= len(text) else lines[:-1]
        if look >= len(text) or any(line.strip() for line in whole):
            return next((line for line in whole if line.strip()), "")
        look *= 16
