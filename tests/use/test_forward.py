"""What a network says of a row has the same bits whatever other rows there are, and in whichever order."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from coterie.core.errors import BadInput
from coterie.models import MODELS
from coterie.use.forward import BLOCK, block_of, even_rows, outputs_of, probabilities_of, refuse_not_finite

NETWORKS = {
    "logistic": lambda: MODELS.make("logistic").build((37,), 5, 0),
    "mlp": lambda: MODELS.make("mlp", hidden=(67, 33)).build((37,), 5, 0),
    "double": lambda: MODELS.make("mlp").build((37,), 5, 0).double(),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_alone_in_company_and_in_any_order(kind):
    model, x = NETWORKS[kind]().eval(), torch.randn(101, 37)
    together = probabilities_of(outputs_of(model, x))
    order = torch.randperm(101)
    assert torch.equal(probabilities_of(outputs_of(model, x[order])), together[order])
    for i in (0, 7, 100):
        assert torch.equal(probabilities_of(outputs_of(model, x[i : i + 1])), together[i : i + 1])
    with torch.no_grad():
        expected = model(x.to(next(model.parameters()).dtype)).double().softmax(dim=1)
    torch.testing.assert_close(together, expected, rtol=1e-5, atol=1e-6)


def test_pictures():
    model, x = MODELS.make("lenet5-small").build((1, 16, 16), 3, 0).eval(), torch.randn(5, 1, 16, 16)
    assert torch.equal(outputs_of(model, x.flip(0)), outputs_of(model, x).flip(0))


class Mixing(nn.Module):
    """Looks at the other rows."""

    def forward(self, x):
        return x - x.mean(dim=0)


class ByPlace(nn.Module):
    """Rounds in another way where a row stands elsewhere, as some products of matrices do."""

    def forward(self, x):
        return torch.cat([x[:100], x[100:] * 3 / 3])


class OneAtATime(nn.Module):
    def forward(self, x):
        if len(x) != 1:
            raise ValueError("one row")
        return x


@pytest.mark.parametrize("kind", [Mixing, ByPlace, OneAtATime])
def test_rows_go_alone_where_others_or_their_place_would_leave_a_trace(kind):
    model, x = kind(), torch.randn(300, 37)
    assert block_of(model, x) == 1
    assert torch.equal(outputs_of(model, x), torch.cat([model(row[None]) for row in x]))


@pytest.mark.parametrize("kind", NETWORKS)
def test_blocks_leave_no_trace(kind):
    model = NETWORKS[kind]().eval()
    x = torch.randn(2 * BLOCK + 3, 37)
    with even_rows(model):
        assert block_of(model, x.to(next(model.parameters()).dtype)) == BLOCK
    together = outputs_of(model, x)
    for i in (0, 5, BLOCK - 1, BLOCK, 2 * BLOCK + 2):
        assert torch.equal(outputs_of(model, x[i : i + 1]), together[i : i + 1])


def test_threads_are_given_back():
    before = torch.get_num_threads()
    outputs_of(nn.Linear(2, 2), torch.ones(3, 2))
    assert torch.get_num_threads() == before


def test_no_rows():
    assert probabilities_of(outputs_of(nn.Linear(2, 2), torch.ones(0, 2))).numel() == 0


def test_what_overflows_is_refused(refused):
    said = "north gives no finite number for row 2: look for a value that is far off"
    with refused(BadInput, said):
        refuse_not_finite(torch.tensor([[1.0], [torch.inf]]), "north")
