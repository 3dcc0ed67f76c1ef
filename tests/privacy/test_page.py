"""The page on private training is true: its policy is one, its commands are accepted, its tables complete."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from coterie.cli.flags import read_settings
from coterie.core.options import options_of
from coterie.features.privacy.wrapper import Private
from coterie.federation.policy.rules import policy_of

PAGE = (Path(__file__).parents[2] / "docs" / "private-training.md").read_text()
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S) for line in block.splitlines()
]


def test_the_policy_on_the_page_is_one():
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    policy = policy_of(tomllib.loads(text))
    assert (policy.epsilon, policy.epsilon_a_requester, policy.clear_scores) == (3.0, 1.0, False)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("coterie run ")])
def test_commands_are_accepted(command):
    settings, _ = read_settings(shlex.split(command)[2:], "run", "", [])
    assert settings.resolved().kernel == "dp(sgd)"


def test_every_option_is_named():
    for option in options_of(Private):
        assert f"`{option.name}`" in PAGE


def test_the_table_is_what_plan_privacy_says():
    """The figures themselves are in tests/cli/test_plan_privacy.py."""
    assert [re.findall(r"[\d.]+ \|", line)[-2:] for line in PAGE.splitlines() if ", cap " in line] == [
        ["3.75 |", "3.75 |"],
        ["3.87 |", "3.87 |"],
        ["10.5 |", "3.75 |"],
        ["22.5 |", "3.75 |"],
    ]
