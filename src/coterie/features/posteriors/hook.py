"""What clients sent for others to join later, if the method is of that kind and the sites are here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coterie.core import belief as tree
from coterie.core.facts import method_fact
from coterie.models import MODELS
from coterie.posteriors import Saved, store
from coterie.runs.about import fingerprint
from coterie.runs.experiment import Experiment
from coterie.runs.folder import POSTERIORS, file_name
from coterie.runs.hooks import Hook, Run


def _network(experiment: Experiment) -> dict[str, Any]:
    """How to build the model, where it is one of ours and takes the data as it is; else what it stands on."""
    name, roster = experiment.settings.model, experiment.roster
    if experiment.body is not None:
        return {"body": fingerprint(replace(roster, members=()), tree.belief_of(experiment.body.network))}
    if name not in MODELS:
        return {}
    options = dict(experiment.settings.options.get(name, {}))
    return {"name": name, "options": options, "shape": list(roster.shape), "outputs": roster.outputs}


class _PosteriorHook(Hook):
    def save(self, run: Run) -> None:
        assert run.folder is not None
        experiment = run.experiment
        roster, origin, network = experiment.roster, experiment.origin, _network(experiment)
        rows = {m.name: m.train for m in roster.members}
        posteriors = method_fact(experiment.method, "posteriors")
        sent = {} if posteriors is None else posteriors(run.state, experiment.net.peek, list(rows))
        for name, (posterior, buffers) in sent.items():
            saved = Saved(
                name,
                rows[name],
                posterior,
                network,
                buffers,
                roster.features,
                roster.classes,
                origin.preparations.get(name),
                None if origin.recipe is None else origin.recipe.for_site(name),  # nothing of other sites
            )
            store.write(run.folder.path / POSTERIORS / f"{file_name(name)}.safetensors", saved)


HOOK = _PosteriorHook
