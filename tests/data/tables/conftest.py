import runpy
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def five(tmp_path_factory):
    """The tables that examples/five_hospitals.py makes."""
    folder = tmp_path_factory.mktemp("five")
    made = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "five_hospitals.py"))
    made["main"](str(folder))
    return folder
