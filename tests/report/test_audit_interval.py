"""An audit's figure whose draws all agree is no certainty."""

from coterie.features.audit.shown import interval


def test_draws_that_agree_have_no_interval():
    assert interval({"value": 1.0, "low": 1.0, "high": 1.0}) == "1.00 (no interval: all draws say the same)"
    assert interval({"value": 0.81, "low": 0.74, "high": 0.88}) == "0.81 (0.74 to 0.88)"
