"""A run of last-layer mode, used afterwards: its frozen layers in the run folder, and whole networks.

features.safetensors    the layers before the last one; the clients' last layers are models.safetensors
"""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from torch import nn

from coterie.core import belief as tree
from coterie.core.errors import BadRun, UnknownName
from coterie.core.options import coerced
from coterie.models import MODELS
from coterie.runs.folder import read_models
from coterie.runs.settings import read_toml
from coterie.sites.last_layer import Body, headless
from coterie.storage.plugins import load_plugins
from coterie.storage.tensors import read_tensors, write_tensors

FILE = "features.safetensors"


def save_body(folder: Path, body: Body | None) -> None:
    """Writes φ into a run folder; nothing if nothing was frozen."""
    if body is None:
        return
    shape = {"last": body.last, "inputs": list(body.inputs), "width": body.width, "outputs": body.outputs}
    write_tensors(folder / FILE, dict(tree.belief_of(body.network)), shape)


def body_of(folder: Path | str, model: nn.Module | None = None) -> Body:
    """φ of a run: `body_of(folder).features(x)` takes raw inputs.

    A run of a module of one's own, started from Python, needs that module to be given.
    """
    path = Path(folder) / FILE
    if not path.exists():
        raise BadRun(f"{folder} has no {FILE}: finish the run, or it froze no layers")
    try:
        tensors, shape = read_tensors(path)
        last, inputs, outputs = str(shape["last"]), tuple(shape["inputs"]), int(shape["outputs"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{path} is damaged ({error}): run it again with another --out") from None
    body = headless(model or _built(Path(folder), inputs, outputs), last, inputs)
    precision = next(t.dtype for t in tensors.values() if t.is_floating_point())
    tree.load(body.network.to(precision), tensors)
    return body


def network_of(folder: Path | str, client: str, model: nn.Module | None = None) -> nn.Module:
    """A client's whole network, for raw inputs: φ, then its own last layer."""
    body, own = body_of(folder, model), read_models(Path(folder))
    if client not in own:
        raise UnknownName("client", client, own)
    last = nn.Linear(body.width, body.outputs, bias="bias" in own[client], dtype=own[client]["weight"].dtype)
    return body.with_last(tree.load(last, own[client]))


def _built(folder: Path, inputs: tuple[int, ...], outputs: int) -> nn.Module:
    config = read_toml(folder / "config.toml")
    load_plugins(config.get("plugins", ()))
    name = config["model"]
    if name not in MODELS:
        raise BadRun(f"{folder} trained a module of your own, a {name}: give it as model=")
    cls = MODELS[name]
    return cls(**coerced(cls, config.get(name, {}), f"model {name}")).build(inputs, outputs, 0)
