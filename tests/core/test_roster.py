"""What is public of the sites."""

from __future__ import annotations

import torch

from coterie.core.roster import Member, Roster, member_of, roster_of


def clients(client_of):
    def part(*y):
        return torch.zeros(len(y), 4), torch.tensor(y)

    return [
        client_of(*part(0, 2, 2), name="a", test=part(1), validation=part(0, 0), cluster=1, notes=("n",)),
        client_of(*part(1, 1, 1, 0, 2), name="b", test=part(2, 0), features=("w", "x", "y", "z")),
    ]


def test_of_clients(client_of):
    roster = roster_of(clients(client_of))
    a, b = roster.members
    assert a == Member("a", 3, 2, 1, ((1, 0, 2), (2, 0, 0), (0, 1, 0)), 1, ("n",))
    assert (b.train, b.validation, b.test, b.labels) == (5, 0, 2, ((1, 3, 1), (0, 0, 0), (1, 0, 1)))
    assert (roster.task, roster.shape, roster.outputs, len(roster)) == ("classification", (4,), 3, 2)
    assert (roster.names, roster.sizes.tolist(), roster.clusters) == (["a", "b"], [3, 5], [1, None])


def test_digests_are_made_where_wanted_and_tell_rows_apart(client_of):
    a, b = clients(client_of)
    first, second, same = (m.digest for m in roster_of([a, b, a], digests=True).members)
    assert first == same != second
    assert "" not in (first, second)
    assert member_of(a, 3).digest == ""


def test_a_regression_has_no_labels_to_count(client_of):
    client = client_of(torch.zeros(2, 3, 5), torch.tensor([0.5, 1.5]))
    roster = roster_of([client])
    assert (roster.members[0].labels, roster.shape, roster.outputs) == (None, (3, 5), 1)


def test_a_site_may_keep_its_labels_to_itself():
    roster = Roster((Member("a", 3, 0, 1), Member("b", 4, 0, 1)), "classification", (2,), 2)
    assert (roster.sizes.tolist(), roster.members[0].labels) == ([3, 4], None)
