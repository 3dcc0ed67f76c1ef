from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """As runs and sites compute: how many threads share a sum decides its last bits."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def processes():
    """Five sites in processes of their own, for all tests of a worker."""
    import torch
    from table import PLUGIN, clients_of

    from coterie.nets.processes import SiteProcesses

    sites = SiteProcesses(clients_of(torch.float64), [PLUGIN])
    yield sites
    sites.close()
    assert [child.returncode for child in sites.children] == [0] * 5
