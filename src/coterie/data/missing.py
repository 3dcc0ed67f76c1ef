"""Missing values in tables, by a named rule that is fitted on training rows only.

refuse   a missing value is an error that names the column
drop     rows with a missing value are left out, and counted
median   a number becomes its column's median, anything else its most frequent value

A column without a single known training value is absent, for which there are rules of its own (`tabular.py`).
"""

from __future__ import annotations

from typing import Literal, get_args

from coterie.core.errors import UnknownName

Missing = Literal["refuse", "drop", "median"]


def check_missing_rule(rule: str) -> None:
    if rule not in get_args(Missing):
        raise UnknownName("rule for missing values", rule, get_args(Missing))
