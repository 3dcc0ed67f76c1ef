"""Runs without one feature after the other, and without any: `test_removal.py` starts this.

    python without.py FOLDER

For each feature a child is forked from a process that has imported everything below the features, and none of
them. There the feature is not listed and nothing of it can be imported. The child runs from the shell's entry
and from Python, and leaves what came of it in FOLDER/NAME.json.
"""

import importlib
import importlib.abc
import json
import os
import pkgutil
import sys
from pathlib import Path

import numpy as np

import coterie
from coterie import features
from coterie.cli.main import main

BELOW = """
torch pandas pyarrow scipy.optimize sklearn.datasets rich.progress
coterie.api.train coterie.cli.flags coterie.cli.screen coterie.data.clients coterie.data.quality.check
coterie.data.sources coterie.federation.lead.connector coterie.kernels.outcomes coterie.metrics.recalibration
coterie.nets.lossy coterie.privacy.spending coterie.report.page coterie.runs.site_view coterie.show.figures
"""
for module in BELOW.split():
    importlib.import_module(module)
LISTED, FEATURES = pkgutil.iter_modules, "coterie.features"
SHELL = "run --data digits --rounds 2 --clients 4 --rows 400 --calibrate none"
NAMES = ["nothing", *(m.name for m in LISTED(features.__path__) if m.ispkg), "all"]


class Refuses(importlib.abc.MetaPathFinder):
    def __init__(self, left_out):
        self.left_out = {f"{FEATURES}.{name}" for name in left_out}

    def find_spec(self, name, path=None, target=None):
        if ".".join(name.split(".")[:3]) in self.left_out:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def run_without(left_out, folder):
    """The exit code in the shell, what was written, and what models are like from Python."""

    def listed(path=None, prefix=""):
        here = list(path or []) == list(features.__path__)
        return (m for m in LISTED(path, prefix) if not here or m.name not in left_out)

    pkgutil.iter_modules = listed
    sys.meta_path.insert(0, Refuses(left_out))
    code = main([*SHELL.split(), "--out", str(folder)])
    draw = np.random.default_rng(0)
    clients = [
        coterie.Client.from_arrays(draw.normal(size=(30, 3)), np.arange(30) % 2, name=name) for name in "abc"
    ]
    result = coterie.train("logistic", clients, "fedavg", rounds=2, seed=0)
    return {
        "code": code,
        "report": (folder / "report.html").is_file(),
        "scores": [json.loads(line)["scores"] for line in (folder / "metrics.jsonl").open()],
        "models": (folder / "models.safetensors").read_bytes().hex(),
        "python": [[p.tolist() for p in model.parameters()] for model in result.models.values()],
        "loaded": sorted({m.split(".")[2] for m in sys.modules if m.startswith(f"{FEATURES}.")}),
    }


def run_all(home):
    assert not [m for m in sys.modules if m.startswith(f"{FEATURES}.")], "something below imports a feature"
    for name in NAMES:
        if child := os.fork():
            os.waitpid(child, 0)
            continue
        left_out = {"nothing": [], "all": NAMES[1:-1]}.get(name, [name])
        found = run_without(left_out, home / name)
        (home / f"{name}.json").write_text(json.dumps(found))
        os._exit(0)


if __name__ == "__main__":
    run_all(Path(sys.argv[1]))
