"""What commands load: in a short run, loading is most of what people wait for."""

import subprocess
import sys

COMMANDS = """
import gc, sys
from coterie.cli.main import main

main(["--help"])
assert "torch" not in sys.modules
import coterie; coterie.train, coterie.Client
main("run --data digits --rounds 1 --out one".split())
main("compare --data titanic --methods local fedavg --seeds 2 --rounds 1 --out two".split())
heavy = ("matplotlib", "networkx", "pandas", "scipy", "sklearn")
assert not [name for name in heavy if name in sys.modules], [name for name in heavy if name in sys.modules]
assert gc.isenabled() and gc.get_freeze_count() > 0
"""


def test_runs_and_comparisons_load_no_large_library_but_torch(tmp_path):
    done = subprocess.run([sys.executable, "-c", COMMANDS], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "one" / "report.html").exists()
    assert (tmp_path / "two" / "report.html").exists()
