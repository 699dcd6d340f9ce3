"""Where names lead through links below a root, beside realpath(3), and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fable_exec.adapters.links import resolved


def test_names_are_resolved_as_realpath_resolves_them_below_the_root(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "target").mkdir()
    links = {"a/rel": "b", "a/up": "../out", "link": str(root / "target"), "chain": "link", "a/top": str(root)}
    for name, leads_to in links.items():
        (root / name).symlink_to(leads_to)
    for path in ("a/rel/missing", "a/up/missing", "a/rel/..", "a/up/..", "link/missing", "chain", "a/./b//", "a/top/chain/x", ""):
        assert resolved(f"{root}/{path}", str(root)) == os.path.realpath(f"{root}/{path}"), path
    (root / "loop").symlink_to("loop2")
    (root / "loop2").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        resolved(f"{root}/loop/q", str(root))


def test_the_last_link_of_a_name_may_be_left_unfollowed(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    (root / "target/below").mkdir(parents=True)
    for name, leads_to in {"link": "target", "target/inner": "below", "loop": "loop"}.items():
        (root / name).symlink_to(leads_to)
    stands_at = {
        "link": "link", "link/": "link", "link/.": "link", "link/inner": "target/inner", "link/inner/x": "target/below/x",
        "link/..": "", "link/inner/..": "target", "loop": "loop", "none": "none", "": "",
    }  # fmt: skip
    for path, place in stands_at.items():
        assert resolved(f"{root}/{path}", str(root), last=False) == f"{root}/{place}".rstrip("/"), path


def test_no_link_is_read_where_the_root_is_gone(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    assert resolved(f"{root}/a/../b", str(root)) == f"{root}/b"


def test_no_link_outside_of_the_root_is_read(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    (tmp_path / "outside").symlink_to("/etc")
    (root / "out").symlink_to("../outside")
    assert resolved(f"{root}/out/passwd", str(root)) == f"{tmp_path.resolve()}/outside/passwd"
    assert resolved(f"{tmp_path.resolve()}/outside", str(root)) == f"{tmp_path.resolve()}/outside"
