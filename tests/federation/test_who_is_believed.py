"""Who is believed where words differ, what few rows and many deals tell, and whose a letter is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from coterie.core.errors import Refused
from coterie.federation.lead.orders import unsound
from coterie.federation.messages import check_order
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import check_deals, check_message, check_rows
from coterie.federation.site.session import Session
from coterie.kernels import SGD
from coterie.runs.record import spans

SENT = {"w": torch.zeros(1, 2), "b": torch.zeros(1)}
RIGHT = {"w": ["float32", [2]], "b": ["float32", []]}
OTHER = {"w": ["float32", [3]], "b": ["float32", []]}


def answer(like):
    return {"like": like, "numbers": ["loss"]}, {"loss": torch.ones(1)}


@pytest.mark.parametrize(
    ("likes", "barred"),
    [
        ([RIGHT, RIGHT], []),
        ([OTHER, RIGHT], [0]),  # as the belief that was sent, whoever comes first
        ([RIGHT, OTHER, OTHER], [1, 2]),
        ([{"m": ["float32", [1]]}, OTHER], [0, 1]),  # nobody, where nothing decides
        ([{"m": ["float32", [1]]}, {"m": ["float32", [1]]}, OTHER], [2]),  # a posterior, as most have it
    ],
)
def test_a_reply_is_made_as_what_was_sent_or_as_most_are(likes, barred):
    answers = {site: answer(like) for site, like in enumerate(likes)}
    assert sorted(unsound(SGD(), SENT, answers, dict.fromkeys(answers, 1))) == barred


def test_parts_of_a_few_rows_and_many_ways_to_deal_are_refused():
    policy = Policy(min_rows=5, deals_a_day=2)
    check_rows(policy, {"train": 5, "validation": 0, "test": 9})
    with pytest.raises(Refused, match="4 rows for test, below the policy's 5"):
        check_rows(policy, {"train": 50, "test": 4})
    check_deals(policy, 1)
    with pytest.raises(Refused, match="in 2 ways within 24 hours"):
        check_deals(policy, 2)


def test_distances_are_told_where_a_policy_allows():
    message = {"do": "distances", "replies": [], "origin": []}
    check_message(Policy(), message, 10)
    with pytest.raises(Refused, match="set distances = true"):
        check_message(Policy(distances=False), message, 10)


def test_a_letter_is_no_way_to_give_a_model_to_a_lead(tmp_path, client_of):
    client = client_of(torch.ones(6, 2), torch.tensor([0, 1] * 3))
    compression = SimpleNamespace(unpack=lambda way, data, learns: (data, {}))
    session = Session(
        client, 0, tmp_path, Policy(), "lead", frozenset({"b"}), lambda *letter: None, compression
    )
    session.held[1] = {"w": torch.ones(2)}
    with pytest.raises(Refused, match="'letter' is nothing that a site can be asked"):
        session.obey({"do": "letter", "to": "b", "rows": [[[1, ["w"]]]], "new": [1]})


@pytest.mark.parametrize("told", [float("nan"), float("inf"), -1, True, "5", None])
def test_times_that_are_none_are_refused(told):
    with pytest.raises(Refused, match=r"\$.deadline"):
        check_order({"do": "letters", "orders": [], "deadline": told, "patience": 1})


@pytest.mark.parametrize("schema", [2, 0, "1", None, True])
def test_a_message_of_another_schema_is_refused_in_one_line(schema):
    keep = {"do": "keep", "live": [1], "round": 1}
    check_order(keep)  # of a version before there were schemas, as a resumed run may send it
    check_order({**keep, "schema": 1})
    with pytest.raises(Refused, match=f"messages of schema {schema!r}, and 1 is known here"):
        check_order({**keep, "schema": schema})


@pytest.mark.parametrize(
    ("rounds", "said"),
    [([4], "4"), ([1, 2, 3, 7, 9, 10], "1 to 3, 7, 9 to 10"), (range(1, 20, 2), "1, 3, 5, 7, 9, ...")],
)
def test_rounds_are_said_as_spans(rounds, said):
    assert spans(list(rounds)) == said
