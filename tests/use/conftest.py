from __future__ import annotations

import pytest
from four_columns import WAY, linear

from coterie.use import Predictor


@pytest.fixture
def by_hand():
    """`by_hand(threshold=0.7)`: the predictor of north."""

    def make(**more) -> Predictor:
        given = {
            "client": "north",
            "task": "classification",
            "classes": ("well", "ill"),
            "model": linear(),
            "shape": (5,),
            "features": WAY.features,
            "preparation": WAY,
            "made": {"name": "logistic", "options": {}},
        }
        return Predictor(**{**given, **more})

    return make
