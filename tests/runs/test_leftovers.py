from coterie.runs.folder import Folder


def test_a_resume_clears_whatever_was_half_written(tmp_path):
    folder = Folder.create(tmp_path / "run", {"method": "local", "rounds": 1}, {})
    for name in (".checkpoint.safetensors.x1", ".tmpRxU5cn", "collaboration/.00001.npz.y2"):
        (folder.path / name).write_text("half")
    (folder.path / "thesis.txt").write_text("mine")
    assert folder.restore(dict, {}) is None
    folder.close()
    left = sorted(str(p.relative_to(folder.path)) for p in folder.path.rglob("*"))
    assert left == [
        ".lock",
        "collaboration",
        "config.toml",
        "metrics.jsonl",
        "run.json",
        "thesis.txt",
        "timings.jsonl",
    ]
