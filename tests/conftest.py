"""Shared by all tests: one core, repeatable examples, small nets, and how a refusal must look."""

from __future__ import annotations

import gc
import os
import shutil
from contextlib import contextmanager

import pytest
import torch
from hypothesis import settings

from coterie.core.belief import belief_of, stack
from coterie.core.client import Client, Samples
from coterie.core.held import Held, at_coordinator, hold
from coterie.core.learner import Learner
from coterie.engines import ENGINES
from coterie.nets import InProcess

torch.set_num_threads(1)
settings.register_profile("coterie", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("coterie")


# what these run is covered by tests beside it: to count its lines again takes a third of their time
UNCOUNTED = (
    "contract/",
    "audit/test_canaries",
    "cli/test_fuzz",
    "federation/test_fuzz",
    "federation/test_helper",
)
UNCOUNTED += (
    "kernels/test_samplers",
    "nets/test_lossy",
    "nets/test_packing",
    "studies/",
    "sealed/test_sealed_net",
)
UNCOUNTED += (
    "contributions/test_small_federations",
    "engines/test_devices",
    "engines/test_fast_engines",
    "federation/test_contract_federation",
    "kernels/test_bayes_engines",
    "ownership/test_every_method",
)


# whose files begin with processes, or share what was computed once: first, where no other worker takes half
# of a file over and makes all that again
FIRST = ("federation/", "contract/")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: looking through it for garbage again and again takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: next((i for i, part in enumerate(FIRST) if part in item.nodeid), len(FIRST)))
    for item in items:
        if any(part in item.nodeid for part in UNCOUNTED):
            item.add_marker(pytest.mark.no_cover)


@pytest.fixture(autouse=True)
def seeded():
    """Modules that a test makes draw their first weights from here."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def states_apart(tmp_path_factory):
    """What sites keep is not that of who runs the tests."""
    os.environ["COTERIE_STATE"] = str(tmp_path_factory.mktemp("states"))


@pytest.fixture(scope="session")
def client_of():
    """A client straight from tensors, in their own dtype, without any preparation."""

    def make(x, y, *, name="a", test=None, validation=None, **more) -> Client:
        train = Samples(torch.as_tensor(x), torch.as_tensor(y))
        nothing = Samples(train.x[:0], train.y[:0])
        parts = {
            part: Samples(torch.as_tensor(given[0]), torch.as_tensor(given[1])) if given else otherwise
            for part, given, otherwise in (("test", test, train), ("validation", validation, nothing))
        }
        return Client(name=name, train=train, **parts, **more)

    return make


@pytest.fixture(scope="session")
def net_of():
    """A net of some clients around a model, on the engine of that name."""

    def make(model, clients, engine="loop") -> InProcess:
        return InProcess(ENGINES.make(engine), Learner(model, clients[0].task), tuple(clients))

    return make


@pytest.fixture(scope="session")
def start_of():
    """What a run begins with, at the coordinator: a module's belief, or beliefs [row, ...] as they are."""

    def make(what) -> Held:
        if isinstance(what, Held):
            return what
        beliefs = stack([belief_of(what)]) if isinstance(what, torch.nn.Module) else what
        return hold(beliefs, at_coordinator(len(next(iter(beliefs.values())))))

    return make


@pytest.fixture(scope="session")
def refused():
    """`with refused(BadData, "message"):` the body must fail so, in exactly these words, in one line."""

    @contextmanager
    def check(kind, message):
        with pytest.raises(kind) as caught:
            yield
        assert type(caught.value) is kind
        assert str(caught.value) == message
        assert "\n" not in str(caught.value)

    return check


@pytest.fixture(autouse=True)
def by_itself(monkeypatch):
    """Comparisons run in this process unless a test asks for several: what it patches is in no other."""
    monkeypatch.setattr("coterie.cli.compare.processes", lambda asked, tasks, small: max(1, asked))


@pytest.fixture
def coarsely(monkeypatch):
    """A record's epsilon on the coarse grid, which takes a tenth of the time: for tests of other things."""
    monkeypatch.setattr("coterie.privacy.spending.MANY", 0)


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    if BROWSER is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium on a machine that has to have one: apt-get install chromium")
        pytest.skip("needs chromium")
    with sync_playwright() as play:
        yield (found := play.chromium.launch(executable_path=BROWSER, args=FLAGS))
        found.close()
