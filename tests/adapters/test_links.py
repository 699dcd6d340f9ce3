"""Where names lead through links below a root, beside realpath(3), and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fable_exec.adapters.links import resolved
from fable_exec.adapters.owned import remove_directory


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


def test_a_name_costs_no_more_looks_than_it_has_names_or_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path.resolve())
    looks = 0
    deep = "d/" * 1000
    bottom = root
    for _ in range(1000):
        bottom += "/d"
        os.mkdir(bottom)
    for number in range(40):
        os.symlink(f"{root}/{deep}{number + 1}", f"{bottom}/{number}")
    opened = os.open

    def counted(*args: Any, **more: Any) -> int:
        nonlocal looks
        looks += 1
        return opened(*args, **more)

    monkeypatch.setattr(os, "open", counted)
    assert resolved(f"{bottom}/0", root) == f"{bottom}/40"
    assert looks <= 41 * 1001
    away_and_back = f"{root}/{deep}" + "../../d/d/" * 300
    with pytest.raises(OSError, match="symbolic links"):
        resolved(away_and_back, root)
    remove_directory(f"{root}/d")
