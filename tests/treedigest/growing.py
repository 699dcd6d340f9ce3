"""Trees for the property tests: described as a dictionary, drawn by Hypothesis, made on disk, and changed in one place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Node = tuple[Any, ...]
"""("file", content, mode), ("link", target) or ("directory", mode, {name: node}); names and targets are bytes."""
Directory = dict[bytes, Node]

NAMES = st.one_of(
    st.sampled_from(
        [b"a", b"b", b"A", b"a-b", b"a.b", b"a b", b"{", b'"', b"\\", b"\n", b"\xff", b"\xc3\xa9", b"e\xcc\x81", b".git"]
    ),
    st.binary(min_size=1, max_size=6),
).filter(lambda name: name not in (b".", b"..") and b"/" not in name and b"\0" not in name)
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o640, 0o645])
CONTENTS = st.binary(max_size=40)
FILES = st.tuples(st.just("file"), CONTENTS, MODES)
LINKS = st.tuples(st.just("link"), st.binary(min_size=1, max_size=12).filter(lambda text: b"\0" not in text))
DIRECTORY_MODES = st.sampled_from([0o755, 0o700])


def _directories(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.tuples(st.just("directory"), DIRECTORY_MODES, st.dictionaries(NAMES, nodes, max_size=4))


NODES: st.SearchStrategy[Node] = st.recursive(st.one_of(FILES, FILES, LINKS), _directories, max_leaves=8)
TREES: st.SearchStrategy[Directory] = st.dictionaries(NAMES, NODES, max_size=5)


def make(tree: Directory, root: Path) -> Path:
    """The tree on disk; `root` must not exist."""
    _make_directory(os.fsencode(root), 0o755, tree)
    return root


def _make_directory(path: bytes, mode: int, children: Directory) -> None:
    os.mkdir(path, 0o700)
    for name, node in children.items():
        _make(path + b"/" + name, node)
    os.chmod(path, mode)


def _make(path: bytes, node: Node) -> None:
    if node[0] == "directory":
        _make_directory(path, node[1], node[2])
    elif node[0] == "link":
        os.symlink(node[1], path)
    else:
        with open(path, "wb") as file:
            file.write(node[1])
        os.chmod(path, node[2])


def paths(tree: Directory, above: tuple[bytes, ...] = ()) -> list[tuple[bytes, ...]]:
    """The place of every node."""
    found = []
    for name, node in tree.items():
        found.append((*above, name))
        if node[0] == "directory":
            found += paths(node[2], (*above, name))
    return found


def changed(tree: Directory, place: tuple[bytes, ...], draw: Any) -> tuple[Directory, str]:
    """The tree with the node at `place` changed in one way, and which way that was."""
    name, *below = place
    node = tree[name]
    if below:
        inner, way = changed(node[2], tuple(below), draw)
        return {**tree, name: ("directory", node[1], inner)}, way
    ways = {
        "file": ["byte", "grown", "mode", "name", "removed", "kind", "added"],
        "link": ["target", "name", "removed", "added"],
        "directory": ["name", "removed", "mode", "added"],
    }[node[0]]
    way = draw(st.sampled_from(ways))
    rest = {other: each for other, each in tree.items() if other != name}
    fresh = draw(NAMES.filter(lambda each: each not in tree))
    if way == "removed":
        return rest, way
    if way in ("name", "added"):
        return {**(rest if way == "name" else tree), fresh: node}, way
    return {**tree, name: _changed_node(node, way, draw)}, way


def _changed_node(node: Node, way: str, draw: Any) -> Node:
    if way == "target":
        return ("link", node[1] + b"x")
    if way == "kind":
        return ("link", node[1].replace(b"\0", b"0") or b"x")
    if way == "mode":
        at = 1 if node[0] == "directory" else 2
        return (*node[:at], node[at] ^ (0o010 if node[0] == "directory" else 0o100), *node[at + 1 :])
    content: bytes = node[1]
    if way == "grown" or not content:
        return ("file", content + b"\0", node[2])
    at = draw(st.integers(0, len(content) - 1))
    return ("file", content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :], node[2])
