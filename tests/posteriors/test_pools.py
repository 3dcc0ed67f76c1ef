"""A pool on disk is the product of who is in it, whatever happens: kills, refusals, two at once."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from coterie.core.belief import belief_of, row, stack
from coterie.core.errors import BadData, BadInput, BadRun, CoterieError, UnknownName
from coterie.core.held import hold
from coterie.core.net import SERVER, edges_of
from coterie.core.seeds import Key
from coterie.kernels import SWAG, Gather
from coterie.kernels.posterior import collected
from coterie.posteriors import (
    Saved,
    covariance,
    diagonal,
    from_collected,
    isotropic,
    joint,
    low_rank,
    mean,
    product,
    variances,
)
from coterie.posteriors.pools import (
    SavedPool,
    change,
    join,
    leave,
    locked,
    network_of,
    read_pool,
    renew,
    with_prior,
    write_pool,
)

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
forms = st.sampled_from(["diagonal", "low-rank"])
LOGISTIC = {"name": "logistic", "options": {}, "shape": [1], "outputs": 2}


def one(mu, variance):
    return diagonal({"w": torch.tensor([mu]).double()}, {"w": torch.tensor([variance]).double()})


def drawn(seed, form="low-rank", p=5):
    g = torch.Generator().manual_seed(seed)
    mu, d = {"w": torch.randn(p, generator=g)}, {"w": torch.rand(p, generator=g) + 0.1}
    if form == "diagonal":
        return diagonal(mu, d)
    return low_rank(mu, d, {"w": torch.randn(3, p, generator=g)})


def pool_of(**posteriors) -> SavedPool:
    return join(SavedPool(), *(Saved(name, 10, posterior) for name, posterior in posteriors.items()))


def same(a, b, **bound):
    torch.testing.assert_close(a.shift, b.shift, **bound)
    torch.testing.assert_close(covariance(a), covariance(b), **bound)


def test_by_hand(tmp_path):
    """N(0, 1), N(3, 1/2): mean 2, precision 3; the second turns N(6, 1): mean 3, precision 2."""
    path = tmp_path / "new" / "pool"
    change(path, lambda pool: join(pool, Saved("a", 10, one(0.0, 1.0))), new=True)
    change(path, lambda pool: join(pool, Saved("b", 20, one(3.0, 0.5))))
    found = read_pool(path)
    assert mean(joint(found.pool))["w"].item() == pytest.approx(2)
    assert variances(joint(found.pool))["w"].item() == pytest.approx(1 / 3)
    assert {name: s.samples for name, s in found.members.items()} == {"a": 10, "b": 20}
    change(path, lambda pool: renew(pool, Saved("b", 30, one(6.0, 1.0))))
    found = read_pool(path)
    assert mean(joint(found.pool))["w"].item() == pytest.approx(3)
    assert variances(joint(found.pool))["w"].item() == pytest.approx(1 / 2)
    assert found.members["b"].samples == 30
    assert [p.name for p in path.parent.iterdir()] == ["pool"]


def test_a_prior_is_counted_once(tmp_path):
    """Prior N(0, 1) in two posteriors of precision 3 and shifts 3, 6: together 5 and 9; alone 3 and 6."""
    pool = with_prior(one(0.0, 1.0))
    for name, mu in (("a", 1.0), ("b", 2.0)):
        pool = join(pool, Saved(name, 1, one(mu, 1 / 3)))
    found = read_pool(write_pool(tmp_path / "p", pool))
    assert mean(joint(found.pool))["w"].item() == pytest.approx(9 / 5)
    assert mean(joint(leave(found, "a").pool))["w"].item() == pytest.approx(2)
    empty = read_pool(write_pool(tmp_path / "p", leave(leave(found, "a"), "b")))
    same(joint(empty.pool), one(0.0, 1.0))
    assert not empty.members


def test_of_several_only_the_sum_must_be_a_gaussian(refused):
    """Prior precision 4; 1 and 1 alone leave 1 + 1 - 4, with 8 it is 1 + 1 + 8 - 8."""
    pool = with_prior(one(0.0, 1 / 4))
    some = [Saved(name, 1, one(0.0, 1 / precision)) for name, precision in (("a", 1), ("b", 1), ("c", 8))]
    with refused(
        BadInput,
        "adding 'a', 'b' leaves precision -2 at w[0], must be above 0: take a prior of larger variance",
    ):
        join(pool, *some[:2])
    assert variances(joint(join(pool, *some).pool))["w"].item() == pytest.approx(1 / 2)


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.lists(forms, min_size=2, max_size=4), forms)
def test_who_comes_and_leaves_leaves_nothing(tmp_path_factory, seed, kinds, form):
    path = tmp_path_factory.mktemp("pool") / "p"
    parts = {f"c{i}": drawn(seed + i, kind) for i, kind in enumerate(kinds)}
    before = read_pool(write_pool(path, pool_of(**parts)))
    same(joint(before.pool), product(list(parts.values())), **TIGHT)
    change(path, lambda pool: join(pool, Saved("guest", 5, drawn(seed + 9, form))))
    change(path, lambda pool: leave(pool, "guest"))
    after = read_pool(path)
    same(joint(after.pool), joint(before.pool), **TIGHT)
    for name, saved in before.members.items():
        mine = after.members[name]
        assert torch.equal(mine.posterior.shift, saved.posterior.shift)
        assert torch.equal(mine.posterior.precision.diagonal, saved.posterior.precision.diagonal)
        for a, b in zip(mine.posterior.precision.factors, saved.posterior.precision.factors, strict=True):
            assert torch.equal(a.columns, b.columns)
            assert a.scale == b.scale


def test_a_pool_written_again_is_the_same_file(tmp_path):
    path = write_pool(tmp_path / "p", pool_of(a=drawn(0), b=drawn(1, "diagonal"), c=drawn(2)))
    assert write_pool(tmp_path / "q", read_pool(path)).read_bytes() == path.read_bytes()


def test_columns_are_stored_once(tmp_path):
    """Of low rank, the product's columns are the members'."""
    write_pool(tmp_path / "p", pool_of(a=drawn(0), b=drawn(1)))
    columns = [name for name in load_file(tmp_path / "p") if "factor" in name]
    assert sorted(columns) == ["member/0/factor/0", "member/1/factor/0"]


def test_an_empty_pool(tmp_path, refused):
    found = read_pool(write_pool(tmp_path / "p", leave(pool_of(a=drawn(0)), "a")))
    assert (found.total, found.members, found.buffers, found.model) == (None, {}, {}, {})
    with refused(BadInput, "a pool of 0 clients has no posterior: add one"):
        joint(found.pool)


def test_buffers_are_averaged_over_members(tmp_path):
    pool = SavedPool()
    for name, rows, level, seen in (("a", 1, 1.0, 4), ("b", 1000, 3.0, 9)):
        buffers = {"mean": torch.tensor([level, 0.0]), "seen": torch.tensor(seen)}
        pool = join(pool, Saved(name, rows, one(0.0, 1.0), buffers=buffers))
    found = read_pool(write_pool(tmp_path / "p", pool)).buffers
    assert found["mean"].tolist() == [2, 0]
    assert found["seen"].item() == 4


def test_posteriors_that_swag_collected(tmp_path, client_of, net_of):
    """Two clients train alone; their files are joined, and one leaves: the other's posterior is left."""
    torch.manual_seed(3)
    clients = [
        client_of(torch.randn(12, 1) + shift, torch.arange(12) % 2, name=name)
        for name, shift in (("a", 0.0), ("b", 2.0))
    ]
    model = nn.Sequential()
    model.add_module("flatten", nn.Flatten())
    model.add_module("head", nn.Linear(1, 2))
    net = net_of(model, clients)
    work = Gather(SWAG(lr=0.1, batch=4, epochs=3))
    start = hold(stack([belief_of(model)]), SERVER)
    replies = net.visit(work, start, edges_of([(0, 0), (0, 1)]), Key(0).at_round(1, 1))
    pool, made = SavedPool(), {}
    for i, client in enumerate(clients):
        found = collected(row(net.open(replies.beliefs), i))
        made[client.name] = from_collected(
            found.mean, found.variance, found.deviations, found.count, "low-rank", floor=1e-6
        )
        pool = join(pool, Saved(client.name, len(client.train), made[client.name], LOGISTIC))
    path = write_pool(tmp_path / "p", pool)
    same(joint(read_pool(path).pool), product(list(made.values())), **TIGHT)
    x = torch.tensor([[0.5], [-1.0]])
    mu = mean(product(list(made.values())))
    expected = x @ mu["head.weight"].T + mu["head.bias"]
    network = network_of(read_pool(path), path)
    torch.testing.assert_close(network.outputs(mean(joint(pool.pool)), x), expected)
    change(path, lambda pool: leave(pool, "b"))
    same(joint(read_pool(path).pool), made["a"], rtol=1e-6, atol=1e-6)


class TestRefusals:
    def test_a_client_twice_and_an_unknown_one(self, refused):
        pool = pool_of(north=one(0.0, 1.0))
        with refused(BadInput, "client 'north' is in the pool already: update it"):
            join(pool, Saved("north", 1, one(0.0, 1.0)))
        with refused(UnknownName, "unknown client 'nord': did you mean north?"):
            leave(pool, "nord")
        with refused(UnknownName, "unknown client 'nord': did you mean north?"):
            renew(pool, Saved("nord", 1, one(0.0, 1.0)))

    def test_other_networks(self):
        mlp = {"name": "mlp", "options": {"hidden": [4], "activation": "relu"}, "shape": [3], "outputs": 2}
        pool = join(SavedPool(), Saved("a", 1, one(0.0, 1.0), mlp, {"mean": torch.zeros(2)}))
        tanh = {**mlp, "options": {"hidden": (4,), "activation": "tanh"}}
        for other, said in (
            (
                Saved("b", 1, one(0.0, 1.0), tanh, {"mean": torch.zeros(2)}),
                '"tanh", "hidden": [4]} for \'b\'',
            ),
            (Saved("b", 1, one(0.0, 1.0), mlp), "different models: only one has 'mean'"),
            (Saved("b", 1, isotropic({"w": torch.zeros(2)}, 1.0), mlp), "'w' has shapes [1] and [2]"),
        ):
            with pytest.raises(BadInput, match=re.escape(said)):
                join(pool, other)
        again = {**mlp, "shape": (3,), "options": {"hidden": (4,), "activation": "relu"}}
        assert len(join(pool, Saved("b", 1, one(0.0, 1.0), again, {"mean": torch.ones(2)})).members) == 2

    def test_a_posterior_that_does_not_name_its_network_joins_one_that_does(self):
        pool = join(SavedPool(), Saved("a", 1, one(0.0, 1.0)))
        assert join(pool, Saved("b", 1, one(0.0, 1.0), LOGISTIC)).model == LOGISTIC

    @pytest.mark.parametrize("keep", [0, 4, 100, -8])
    def test_cut_short(self, keep, tmp_path):
        path = write_pool(tmp_path / "p", pool_of(a=drawn(0)))
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(BadData, match=r"p is damaged or no pool \(.*\): join its posteriors anew$"):
            read_pool(path)

    @pytest.mark.parametrize(
        ("lie", "reason"),
        [
            (lambda h: {"kind": "posterior 2"}, "its kind is 'posterior 2', not 'pool 2'"),
            (lambda h: {"members": 3}, "'int' object is not iterable"),
            (lambda h: {"members": h["members"] * 2}, "its parts do not belong together"),
            (lambda h: {"total": None}, "its parts do not belong together"),
            (lambda h: {"twins": {"total/shift": "member/7/shift"}}, "no 'member/7/shift'"),
            (lambda h: {"prior": {"form": "diagonal"}}, "no 'model'"),
        ],
    )
    def test_headers_that_lie(self, lie, reason, tmp_path, refused):
        path = write_pool(tmp_path / "p", pool_of(a=one(0.0, 1.0)))
        size = int.from_bytes(path.read_bytes()[:8], "little")
        header = json.loads(json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]["coterie"])
        tensors = load_file(path)
        tensors |= {name.replace("member/0", "member/1"): t.clone() for name, t in tensors.items()}
        save_file(tensors, path, metadata={"coterie": json.dumps(header | lie(header))})
        with refused(BadData, f"{path} is damaged or no pool ({reason}): join its posteriors anew"):
            read_pool(path)

    def test_no_gaussian(self, tmp_path, refused):
        path = write_pool(tmp_path / "p", SavedPool(one(0.0, 1.0) * -1.0, pool_of(a=one(0.0, 1.0)).members))
        with refused(
            BadInput,
            f"the pool in {path} has precision -1 at w[0], must be above 0: join its posteriors anew",
        ):
            read_pool(path)

    def test_no_file_and_a_folder(self, tmp_path, refused):
        path = tmp_path / "p"
        with refused(BadData, f"no pool at {path}: make one with 'coterie posterior add {path} FILE'"):
            change(path, lambda pool: leave(pool, "a"))
        with refused(BadData, f"{tmp_path} is a folder, a pool is a file: name one in it"):
            change(tmp_path, lambda pool: pool, new=True)
        assert list(tmp_path.iterdir()) == []

    def test_what_is_refused_leaves_no_folder_behind(self, tmp_path):
        with pytest.raises(UnknownName):
            change(tmp_path / "new" / "p", lambda pool: leave(pool, "a"), new=True)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("model", "said"),
        [
            ({}, "p does not say how to build its network: predict from Python"),
            ({**LOGISTIC, "name": "logistik"}, "unknown model 'logistik': did you mean logistic?"),
            (
                {"name": "logistic", "outputs": 2},
                "p is damaged or no pool (no 'shape'): join its posteriors anew",
            ),
            ({**LOGISTIC, "name": "linear", "outputs": 1}, "p has 1 output: predictions need a classifier"),
            (LOGISTIC, "belief and module differ in 'head.bias': use the module it was made from"),
        ],
    )
    def test_a_network_that_cannot_be_built(self, model, said):
        with pytest.raises(CoterieError, match=re.escape(said)):
            network_of(join(SavedPool(), Saved("a", 1, one(0.0, 1.0), model)), "p")


class TestSafety:
    def test_a_failed_write_leaves_the_old_file(self, tmp_path, monkeypatch, refused):
        path = write_pool(tmp_path / "p", pool_of(a=drawn(0)))
        before = path.read_bytes()

        def full_disk(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("coterie.storage.atomic.os.fsync", full_disk)
        with refused(
            BadRun, f"cannot write {path}: No space left on device: free space or choose another place"
        ):
            change(path, lambda pool: join(pool, Saved("b", 1, drawn(1))))
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["p"]

    def test_a_folder_that_cannot_be_written(self, tmp_path, refused):
        (tmp_path / "file").write_text("")
        with refused(
            BadRun,
            f"cannot write {tmp_path / 'file' / 'p'}: File exists: free space or choose another place",
        ):
            change(tmp_path / "file" / "p", lambda pool: join(pool, Saved("a", 1, drawn(0))), new=True)

    def test_all_who_come_at_once_are_in(self, tmp_path):
        path, gate = tmp_path / "p", threading.Barrier(6)

        def come(i):
            gate.wait()
            for j in range(3):
                mine = Saved(f"{i}/{j}", 1, drawn(i + 10 * j))
                change(path, lambda pool, mine=mine: join(pool, mine), new=True)

        threads = [threading.Thread(target=come, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = read_pool(path)
        assert sorted(found.members) == sorted(f"{i}/{j}" for i in range(6) for j in range(3))
        everyone = product([drawn(i + 10 * j) for i in range(6) for j in range(3)])
        same(joint(found.pool), everyone, **TIGHT)
        assert [p.name for p in tmp_path.iterdir()] == ["p"]

    def test_who_comes_meanwhile_waits(self, tmp_path):
        path = write_pool(tmp_path / "p", pool_of(a=drawn(0)))
        other = threading.Thread(target=change, args=(path, lambda pool: leave(pool, "a")))
        with locked(path):
            other.start()
            time.sleep(0.1)
            assert other.is_alive()
            assert list(read_pool(path).members) == ["a"]
        other.join(timeout=10)
        assert list(read_pool(path).members) == []

    def test_another_pools_files_are_left_alone(self, tmp_path):
        for name in (".p.q.lock", ".p.q.abcd1234", ".p.abcd1234.x", "p.abcd1234"):
            (tmp_path / name).write_text("mine")
        before = sorted(p.name for p in tmp_path.iterdir())
        (tmp_path / ".p.abcd1234").write_text("a draft of a writer that was killed")
        with locked(tmp_path / "p"):
            pass
        assert sorted(p.name for p in tmp_path.iterdir()) == before

    def test_killed_when_all_is_written_but_the_name(self, tmp_path):
        """The old pool is there, the lock does not bind, and the next change takes the remains away."""
        path = write_pool(tmp_path / "p", pool_of(a=drawn(0)))
        before = path.read_bytes()
        script = (
            "import os, signal, sys, torch; from pathlib import Path\n"
            "from coterie.storage import atomic as files\n"
            "from coterie.posteriors.pools import change, leave\n"
            "files.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
            "change(Path(sys.argv[1]), lambda pool: leave(pool, 'a'))\n"
        )
        killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert path.read_bytes() == before
        assert len(list(tmp_path.iterdir())) == 3  # a draft and a lock beside it
        change(path, lambda pool: join(pool, Saved("b", 1, drawn(1))))
        assert list(read_pool(path).members) == ["a", "b"]
        assert [p.name for p in tmp_path.iterdir()] == ["p"]
