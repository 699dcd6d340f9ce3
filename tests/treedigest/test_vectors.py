"""The digests of the reference, and what it cannot tell apart."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec.treedigest import Level, Profile, tree_digest
from tests.anothers import reachable_directory
from tests.treedigest import vectors
from tests.treedigest.test_loki import repository

EQUAL: dict[str, list[str]] = json.loads((vectors.DIRECTORY / "EQUAL_DIGESTS.json").read_text())
GROUPS = [[name for name in names if name in vectors.NAMES] for names in EQUAL.values()]
FOR_ORDINARY_USERS = tuple(name for name in vectors.NAMES if "run_as" in vectors.spec(name))
FOR_ALL = tuple(name for name in vectors.NAMES if name not in FOR_ORDINARY_USERS)


@pytest.mark.parametrize("name", FOR_ALL)
def test_the_profile_loki_v3_gives_the_digest_and_the_entries_of_the_reference_at_every_level(name: str, tmp_path: Path) -> None:
    top, expected = vectors.build(name, tmp_path / "tree"), vectors.expected(name)
    for level in Level:
        found = tree_digest(top, profile="loki-v3", level=level)
        entries = None if found.manifest is None else json.loads(found.manifest.data)["entries"]
        assert (found.sha256, entries) == (expected["loki_tree_sha256"], expected["manifest_entries"]), level


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Where another user gets at what is made, and at this checkout."""
    if os.geteuid() == 0 and not all(parent.stat().st_mode & stat.S_IXOTH for parent in Path(__file__).parents):
        pytest.skip("an ordinary user cannot reach this checkout; `make test` runs this as one, too")
    with reachable_directory() as place:
        yield place


def as_ordinary_user(name: str, reachable: Path, profile: str) -> str:
    """What `vectors.py` prints; it runs as this user, or as somebody without rights where that is root."""
    directory = reachable / "anybodys"
    directory.mkdir()
    directory.chmod(0o777)
    program = Path(vectors.__file__)
    user: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": ()} if os.geteuid() == 0 else {}
    argv = [sys.executable, "-B", str(program), name, str(directory / "tree"), profile]
    done: subprocess.CompletedProcess[str] = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **user)
    return done.stdout


@pytest.mark.parametrize("name", FOR_ORDINARY_USERS)
def test_what_an_ordinary_user_may_not_read_is_bound_as_the_reference_binds_it(name: str, reachable: Path) -> None:
    assert as_ordinary_user(name, reachable, "loki-v3") == vectors.expected(name)["loki_tree_sha256"]


@pytest.mark.parametrize("name", FOR_ORDINARY_USERS)
def test_the_profile_tree_gives_no_digest_that_does_not_bind_everything(name: str, reachable: Path) -> None:
    assert as_ordinary_user(name, reachable, "tree") == "path-permission"


@pytest.mark.parametrize("names", [group for group in GROUPS if len(group) > 1])
def test_the_profile_tree_tells_apart_what_the_reference_takes_for_equal(names: list[str], tmp_path: Path) -> None:
    readable = [name for name in names if name in FOR_ALL]
    digests = {name: tree_digest(vectors.build(name, tmp_path / name)).sha256 for name in readable}
    assert len(set(digests.values())) == len(readable) > 1


_DIGESTS = """
import sys
from fable_exec.errors import PathError
from fable_exec.treedigest import DigestCache, tree_digest
workspace, cache, profile = sys.argv[1:]
for more in ({"cache": DigestCache(cache)}, {}):
    try:
        print(tree_digest(workspace, profile, "fast", **more).sha256)
    except PathError as error:
        print(error.reason)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can leave a group; `make test` runs this as root, too")
@pytest.mark.parametrize("profile", Profile)
def test_what_may_be_read_is_asked_of_the_kernel_and_not_of_the_cache(profile: Profile, reachable: Path) -> None:
    """No stamp of a file moves when a user joins a group or leaves it."""
    workspace, cache = reachable / "workspace", reachable / "cache"
    workspace.mkdir()
    repository(workspace, "a")
    os.chown(workspace / "a", 0, 4321)
    (workspace / "a").chmod(0o640)
    cache.mkdir(mode=0o700)
    os.chown(cache, 65534, 65534)
    time.sleep(0.05)  # or the stamps would not be old enough to be believed
    argv = [sys.executable, "-c", _DIGESTS, str(workspace), str(cache / "digests"), profile.value]
    found = []
    for groups in ([], [4321], [4321], []):
        done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, user=65534, group=65534, extra_groups=groups)
        with_cache, without = done.stdout.split()
        assert with_cache == without
        found.append(without)
    assert found[0] != found[1] == found[2] != found[3]
