"""Hosts, small disks and wrong clocks for tests of a federation."""

from __future__ import annotations

import contextlib

import hosts
import pytest


@pytest.fixture
def hosts_of(tmp_path_factory):
    """`hosts_of("relay", "north")`: hosts in network namespaces, gone with the test."""
    if why := hosts.Hosts.possible():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("hosts")
    with contextlib.ExitStack() as opened:
        yield lambda *names: opened.enter_context(hosts.Hosts(names, folder))


@pytest.fixture
def here_of(tmp_path_factory):
    """The same on loopback, where no cable can be cut."""
    folder = tmp_path_factory.mktemp("hosts")
    with contextlib.ExitStack() as opened:
        yield lambda *names: opened.enter_context(hosts.Here(names, folder))


@pytest.fixture
def small_disk(tmp_path_factory):
    """`small_disk(2)`: a folder with room for two megabytes."""
    folder = tmp_path_factory.mktemp("hosts")
    with contextlib.ExitStack() as opened:
        yield lambda mb: opened.enter_context(hosts.small_disk(mb, folder))


@pytest.fixture(scope="session")
def clock_off():
    """`clock_off(3600)`: the environment of a process whose clock is an hour ahead."""
    return hosts.clock_off
