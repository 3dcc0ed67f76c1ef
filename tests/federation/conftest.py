"""Hosts, small disks and wrong clocks for tests of a federation, and one ward for all who disturb one."""

from __future__ import annotations

import contextlib
from pathlib import Path

import hosts
import pytest
from ward import Ward

HERE = Path(__file__).parent


class Standing:
    """The ward that stands, if there is one, and what ends it."""

    ward: Ward | None = None
    ends = contextlib.ExitStack()


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """A relay, sites a, b, c and d, all of them there; to start them takes longer than most tests."""
    if Standing.ward is None:
        folder = tmp_path_factory.mktemp("standing")
        here = Standing.ends.enter_context(hosts.Here(["ward"], folder))
        Standing.ward = Ward(here, folder, helpers=("ada", "ben", "tom"))
        Standing.ward.open()
    Standing.ward.whole()
    return Standing.ward


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem):
    if Standing.ward is not None and (nextitem is None or nextitem.path.parent != HERE):
        Standing.ward = None
        Standing.ends.close()


@pytest.fixture(autouse=True)
def settled():
    """What a failed test leaves does not make the next one fail."""
    yield
    if Standing.ward is not None:
        Standing.ward.settle()


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
    hosts.clock_off(0)  # skips the test where there is none, before anything else is made for it
    return hosts.clock_off
