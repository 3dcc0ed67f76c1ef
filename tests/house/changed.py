"""Runs the commands of pages of the docs on a copy of the program: `test_changes.py` starts this.

    python changed.py HOME < {page: [words of a command, ...]}

Each page in a process that is forked when what all of them need is imported.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

import coterie.cli.main
import coterie.data.sources
import coterie.report.page


def ran(words):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = coterie.cli.main.main(words)
    return code, said.getvalue()


if __name__ == "__main__":
    home = Path(sys.argv[1])
    for page, commands in json.load(sys.stdin).items():
        if child := os.fork():
            os.waitpid(child, 0)
            continue
        (home / page).mkdir()
        os.chdir(home / page)
        (home / f"{page}.json").write_text(json.dumps([ran(words) for words in commands]))
        os._exit(0)
