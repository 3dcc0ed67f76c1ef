"""Several runs side by side: forked processes that take the next one from a list and say how far they are.

A fork has all that is loaded already, so it costs milliseconds. What runs compute does not depend on it: each
has its own folder and its own random numbers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from coterie.core import errors
from coterie.core.clock import CLOCK
from coterie.core.errors import BadInput, BadRun, CoterieError, Several, UnknownName, lines_of
from coterie.engines import threads

Say = Callable[[dict[str, Any]], None]
Work = Callable[[int, Say], None]
LONGEST = 2000  # letters of an error, so that what is said goes through a pipe in one piece
NUMBER = 4  # bytes of a task
MOST = 64  # processes: more would only take memory


def processes(asked: int, tasks: int, small: bool) -> int:
    """How many: those asked for, or one for each core if each run keeps but one busy.

    A fork takes along one thread alone, so that a process with several stays by itself unless told otherwise.
    """
    if not 0 <= asked <= MOST:
        raise BadInput(
            f"jobs={asked} must lie in [0, {MOST}]: 0 takes one for each core where runs are small"
        )
    if asked > 1 and not hasattr(os, "fork"):
        raise BadInput(f"jobs={asked} needs a system that can fork a process: leave it out")
    alone = sys.platform == "linux" and threading.active_count() == 1
    wanted = asked or ((os.cpu_count() or 1) if small and alone else 1)
    return min(wanted, tasks)


def side_by_side(tasks: int, jobs: int, work: Work) -> Iterator[dict[str, Any]]:
    """What the processes say while they do all tasks. The first error ends them all, and is raised here."""
    heard, said = os.pipe()
    parent, children = os.getpid(), list[int]()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        with tempfile.TemporaryFile() as listed:  # forks share the place up to which it has been read
            listed.write(b"".join(task.to_bytes(NUMBER, "big") for task in range(tasks)))
            listed.seek(0)
            for _ in range(jobs):
                child = os.fork()
                if not child:  # whatever happens, it does not go on as a second parent
                    code = 1
                    try:
                        os.close(heard)
                        code = _tasks(listed.fileno(), said, parent, jobs, work)
                    finally:
                        os._exit(code)
                children.append(child)
        os.close(said)
        with os.fdopen(heard) as lines:
            for line in lines:
                entry = json.loads(line)
                if "error" in entry:
                    raise _error(entry)
                yield entry
        while children:
            _, status = os.waitpid(children.pop(), 0)
            if status:
                code = os.waitstatus_to_exitcode(status)
                raise BadRun(f"a process ended with {code} before its runs were over: resume what is left")
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)
        for child in children:
            os.waitpid(child, 0)


def _tasks(listed: int, said: int, parent: int, jobs: int, work: Work) -> int:
    """Does one task after the other; returns the exit code."""
    before = CLOCK.read()

    def say(entry: dict[str, Any]) -> None:
        if os.getppid() != parent:  # killed; nobody is left to go on for
            os._exit(1)
        os.write(said, json.dumps(entry).encode() + b"\n")

    try:
        threads.use(max(1, threads.many() // jobs))
        while task := os.read(listed, NUMBER):
            work(int.from_bytes(task, "big"), say)
        say({"spent": CLOCK.since(before)})
        return 0
    except CoterieError as error:
        lines = [line[:LONGEST] for line in lines_of(error)]
        room = [line for i, line in enumerate(lines) if sum(map(len, lines[: i + 1])) <= LONGEST]
        say({"error": type(error).__name__, "lines": room})
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        trace = traceback.format_exc()[-LONGEST // 2 :]
        say({"error": "", "lines": [f"{type(error).__name__}: {error}"[: LONGEST // 4]], "trace": trace})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 1


def _error(entry: dict[str, Any]) -> Exception:
    """A process's error as one of this process; what nobody expected comes with where it was."""
    if not entry["error"]:
        mishap = RuntimeError(entry["lines"][0])
        mishap.add_note(entry["trace"])
        return mishap
    kind = getattr(errors, entry["error"], CoterieError)
    if issubclass(kind, Several):
        return kind(entry["lines"])
    made: Exception = (BadInput if kind is UnknownName else kind)(entry["lines"][0])
    return made
