"""Runs to audit, made once: a table of two hospitals, digits by a network for pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coterie.cli.flags import read_settings
from coterie.cli.run import OUT
from coterie.features.audit.subject import read_subject
from coterie.runs.builder import prepare
from coterie.runs.folder import Folder
from coterie.runs.loop import run

HEADER = "age,dose,sex,sick\n"


def rows(seed, many=60):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(many):
        age, dose, sex = rng.normal(50, 10), rng.normal(3, 1), rng.choice(["f", "m"])
        sick = "ill" if (age - 50) / 10 + dose - 3 + rng.normal() > 0 else "well"
        lines.append(f"{age:.1f},{dose:.2f},{sex},{sick}\n")
    return HEADER + "".join(lines)


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """A finished run by these words, each made once."""
    made: dict[tuple[str, ...], Path] = {}

    def make(*words: str) -> Path:
        if words not in made:
            out = tmp_path_factory.mktemp("audited") / "run"
            settings, _ = read_settings(words, "run", "", [OUT])
            experiment = prepare(settings.resolved(), None)
            folder = Folder.create(out, experiment.config, experiment.about)
            run(experiment, folder, settings.method)
            folder.close()
            experiment.net.close()
            made[words] = out
        return made[words]

    return make


@pytest.fixture(scope="session")
def hospitals(tmp_path_factory):
    """Words of a run of two hospitals with a table each; the second has a name that is no HTML."""
    home = tmp_path_factory.mktemp("hospitals")
    for i, name in enumerate(("north", "<b>south")):
        (home / f"{name}.csv").write_text(rows(i))
    files = [str(home / f"{name}.csv") for name in ("north", "<b>south")]
    return ("--data", "table", "--table.path", *files, "--table.target", "sick", "--rounds", "3")


@pytest.fixture(scope="session")
def subject_of(run_of):
    def make(*words: str, **more):
        return read_subject(run_of(*words), **more)

    return make
