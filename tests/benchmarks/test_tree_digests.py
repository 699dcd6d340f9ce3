"""What tree digests are measured against does the same job: the reference's algorithm, written again, gives the same digests."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures.tree_digests import make_tree, reference_digest
from fable_exec.treedigest import tree_digest


def test_the_reference_written_again_gives_the_digest_of_loki_v3(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    make_tree(top, 100)
    assert reference_digest(top) == tree_digest(top, "loki-v3", "fast").sha256
    interleaved = ["between/a", "between.a", "between-a", "between/b/c", "between/b.c", "between/b/\u00e9"]
    for path in (*interleaved, "node_modules/x", "target/x"):
        (top / path).parent.mkdir(exist_ok=True)
        (top / path).write_text(path)
    (top / "between/link").symlink_to("a")
    (top / "between/a").chmod(0o755)
    digest = reference_digest(top)
    assert digest == tree_digest(top, "loki-v3", "fast").sha256 != ""
    (top / "node_modules/x").unlink()
    assert reference_digest(top) == digest


def test_below_the_top_of_a_worktree_neither_has_a_digest(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    make_tree(top, 1)
    assert reference_digest(top / "group0") == tree_digest(top / "group0", "loki-v3", "fast").sha256 == ""
