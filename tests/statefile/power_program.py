"""The program of test_power_cuts.py: `... IMAGE SCENE cut | unsynced`, run on the ext4 that lies in IMAGE.

A cut of the power is a copy of what the device has: at each stop of an act the image is copied, the copy mounted elsewhere, and
what its journal makes of it is looked at. With `unsynced` the same act does not sync, and is cut when it is over. Prints JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fable_exec import _sys
from fable_exec.statefile import StateFile
from tests.statefile.scenes import SCENES, left_in
from tests.statefile.states import FORM
from tests.tracing import Act, killed_at

fresh = itertools.count()


@contextmanager
def mounted(image: Path) -> Iterator[Path]:
    place = image.with_suffix(".mounted")
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def word_after_a_cut(image: Path, scene: str, directory: Path) -> str:
    with mounted(image) as place:
        state = StateFile(place / directory.name, FORM)
        assert len(left_in(state)) <= 1
        return SCENES[scene].after(state)


def laid_out(scene: str) -> StateFile:
    state = SCENES[scene].lay_out(Path.cwd() / str(next(fresh)))
    os.sync()
    return state


def cut(image: Path, scene: str) -> Iterator[str]:
    copy = image.with_name("copy")
    for stop in itertools.count(1):
        state = laid_out(scene)
        went_on = killed_at(stop, lambda state=state: SCENES[scene].prepare(state), lambda: shutil.copyfile(image, copy))
        yield word_after_a_cut(copy, scene, state.directory)
        shutil.rmtree(state.directory)
        if not went_on:
            return


def unsynced(image: Path, scene: str) -> Iterator[str]:
    for name in ("sync_file", "sync_data", "sync_directory"):
        setattr(_sys, name, lambda fd: None)
    state = laid_out(scene)
    act: Act = SCENES[scene].prepare(state)
    os.sync()
    act()
    copy = image.with_name("copy")
    shutil.copyfile(image, copy)
    yield word_after_a_cut(copy, scene, state.directory)


def main() -> None:
    image, scene, way = sys.argv[1:]
    words = list({"cut": cut, "unsynced": unsynced}[way](Path(image), scene))
    print(json.dumps({"runs": len(words), "changes": [word for word, _ in itertools.groupby(words)]}))


if __name__ == "__main__":
    main()
