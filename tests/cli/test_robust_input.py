"""Mistakes with robust rules, from the shell: refused before round 1; and what the shell says of rules."""

import pytest

FIVE = (
    "run",
    "--data",
    "digits",
    "--model",
    "logistic",
    "--clients",
    "5",
    "--rounds",
    "1",
    "--method",
    "robust",
)
OWN = ("--method", "robust-personal")
PEERS = ("--method", "random", "--random.rule", "krum")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--robust.f", "2"], "krum needs n > 2f + 2; got n=5, f=2: lower --robust.f or add clients"),
        (
            ["--robust.rule", "bulyan", "--robust.f", "1"],
            "bulyan needs n >= 4f + 3; got n=5, f=1: lower --robust.f",
        ),
        (
            ["--robust.rule", "monna"],
            "a server has none of its own: name a client with root, or use robust-p",
        ),
        (["--robust.rule", "monna", "--robust.root", "me"], "unknown root 'me'"),
        (["--robust.root", "client-0"], "root='client-0' is for monna and fltrust, and the rule is nnm+krum"),
        (["--robust.rule", "krumm"], "unknown rule 'krumm': did you mean krum?"),
        (["--robust.rule", "krum:k=2"], "unknown option of rule krum 'k'"),
        (["--robust.f", "-1"], "f=-1 must be at least 0: try auto"),
        (["--robust.f", "some"], "some"),
        (["--robust.sample", "0.2"], "krum needs n > 2f + 2; got n=1, f=0: add clients"),
        ([*OWN, "--robust-personal.server-step", "2"], "server_step=2.0 must lie above 0 and up to 1: try 1"),
        ([*OWN, "--robust-personal.requester", "x"], "unknown requester 'x'"),
        ([*OWN, "--sgd.keep"], "keep=true needs one requester"),
        ([*PEERS], "and order=thesis mixes in turn: set --random.order at-once"),
        ([*PEERS, "--random.order", "at-once", "--random.f", "2"], "krum needs n > 2f + 2; got n=5, f=2"),
        (
            ["--robust.rule", "meamed", "--wrap", "sealed"],
            "robust looks at single models (open), which --wrap",
        ),
    ],
)
def test_refused_in_one_line(refused, words, said):
    assert said in refused(*FIVE, *words)


def test_rules_with_options_in_a_comparison(coterie):
    words = ("--methods", "robust:rule=centred-clipping:radius=1:steps=2,f=1", "robust:rule=nnm+krum")
    code, out, said = coterie("compare", *FIVE[1:-2], *words, "--seeds", "1", "--jobs", "1")
    assert code == 0, said
    assert "radius=1" in out


def test_the_shell_lists_the_rules(coterie):
    _, told, _ = coterie("methods", "robust")
    assert "needs n > 2f + 2, runs sealed" in told
    assert "needs n >= 4f + 3, looks at single models (open)" in told
    _, told, _ = coterie("methods", "centred-clipping")
    assert "centred-clipping:radius= (default: auto)" in told
