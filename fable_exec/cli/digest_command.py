"""`fable-exec digest`: one digest of a directory tree, and what differs from a manifest that was kept."""

from __future__ import annotations

from typing import Any

import attrs
import click

from fable_exec.cli.digest_progress import shown_progress
from fable_exec.cli.engine_directory import one_name
from fable_exec.cli.exits import Exit
from fable_exec.cli.inputs import AS_JSON, contents
from fable_exec.cli.showing import at_the_door, one_line, print_object, print_text, say
from fable_exec.errors import StateUnreadable
from fable_exec.sha256text import is_sha256
from fable_exec.treedigest import Difference, Level, Manifest, Profile, TreeDigest, tree_digest

__all__ = ["command"]

_MAX_MANIFEST_BYTES = 1 << 30
_SIGNS = (("added", "+"), ("removed", "-"), ("changed", "M"), ("mode_changed", "m"))


def _kept(_: click.Context, __: click.Parameter, given: str | None) -> Manifest | None:
    """The manifest in a file: by itself, or as `--manifest` printed it, below its digest."""
    if given is None:
        return None
    data = contents(given, _MAX_MANIFEST_BYTES).removesuffix(b"\n")
    digest, _newline, below = data.partition(b"\n")
    try:
        return Manifest.from_bytes(below if is_sha256(digest.decode("latin-1")) else data, given)
    except StateUnreadable as error:
        raise click.BadParameter(one_line(str(error))) from error


@click.command("digest")
@click.option("--profile", type=click.Choice([each.value for each in Profile]), help="What is bound.  [default: tree]")
@click.option(
    "--level", type=click.Choice([each.value for each in Level]), default=Level.STABLE.value, show_default=True,
    help="What it promises of a tree that somebody may be changing.",
)  # fmt: skip
@click.option("--engine-dir", metavar="NAME", callback=one_name, help="A directory at the top whose content does not count.")
@click.option("--manifest", "with_manifest", is_flag=True, help="Print the manifest as well, on the second line.")
@click.option("--diff", "kept", metavar="FILE", callback=_kept, help="Tell what differs from the manifest in FILE.")
@AS_JSON
@click.argument("path", type=click.UNPROCESSED)
def command(
    profile: str | None, level: str, engine_dir: str | None, with_manifest: bool, kept: Manifest | None, as_json: bool, path: str
) -> int:
    """Print the digest of the tree below the directory PATH. git is never run, and no link is followed out.

    With --diff, a line follows for each path that was added (+), removed (-), changed (M), or only in its mode (m).

    Exit status: 0 for a digest and no difference, 1 for no digest or a difference, 2 when FILE cannot be read.
    """
    if kept is not None:
        if profile not in (None, kept.profile.value):
            raise click.UsageError(f"the manifest is of the profile {kept.profile.value}; leave --profile out")
        profile, engine_dir = kept.profile.value, engine_dir or kept.engine_directory

    def act() -> int:
        with shown_progress() as on_progress:
            found = tree_digest(path, profile or Profile.TREE, level, engine_directory=engine_dir, on_progress=on_progress)
        difference = None if kept is None else found.difference_from(kept)
        if as_json:
            print_object(_members(found, difference, with_manifest))
        else:
            _print(found, difference, with_manifest)
        return Exit.OK if found.sha256 and (difference is None or difference.is_empty) else Exit.FAILED

    return at_the_door(act, as_json=as_json)


def _members(found: TreeDigest, difference: Difference | None, with_manifest: bool) -> dict[str, Any]:
    members = {
        "ok": bool(found.sha256) and (difference is None or difference.is_empty), "sha256": found.sha256,
        "profile": found.profile.value, "level": found.level.value, "unproven": found.unproven,
    }  # fmt: skip
    if difference is not None:
        members["difference"] = attrs.asdict(difference)
    if with_manifest:
        members["manifest"] = None if found.manifest is None else found.manifest.data.decode()
    return members


def _print(found: TreeDigest, difference: Difference | None, with_manifest: bool) -> None:
    lines = [found.sha256]
    if with_manifest and found.manifest is not None:
        lines.append(found.manifest.data.decode())
    if difference is not None:
        lines += [f"{sign} {one_line(path) or '.'}" for name, sign in _SIGNS for path in getattr(difference, name)]
    print_text("".join(f"{line}\n" for line in lines))
    if not found.sha256:
        say("no git worktree has its top there, so the profile loki-v3 has no digest for it; the profile tree has one")
    if difference is not None and difference.rules_changed:
        say("the manifest was made by other rules")
    if found.unproven:
        say(f"{found.unproven} files: the system does not tell whether somebody has them open for writing")
