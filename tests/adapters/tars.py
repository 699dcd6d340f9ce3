"""Archives made by hand, also such as no writer makes."""

from __future__ import annotations

import io
import tarfile
from typing import Any

__all__ = ["END", "a_directory", "a_file", "a_link", "extended", "header", "record", "sparse", "tar_of"]

Member = tuple[str, dict[str, Any], bytes]
"""A name, what else its header says, and what it holds."""

END = bytes(1024)


def tar_of(*members: Member) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, more, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in more.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def header(name: str, *, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header by itself, also one that no writer makes."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def record(keyword: str, value: str) -> bytes:
    """One record of an extended header."""
    body = f" {keyword}={value}\n".encode()
    size = len(body) + 1
    while size != len(body) + len(str(size)):
        size = len(body) + len(str(size))
    return str(size).encode() + body


def extended(*records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    content = b"".join(records)
    return header("extended", size=len(content), kind=kind) + content + bytes(-len(content) % 512)


def sparse(claimed: str, *, map: str) -> bytes:
    return extended(record("GNU.sparse.map", map), record("GNU.sparse.size", claimed)) + header("sparse")


def a_file(name: str, content: bytes = b"x", **more: Any) -> Member:
    return name, more, content


def a_link(name: str, target: str) -> Member:
    return name, {"type": tarfile.SYMTYPE, "linkname": target}, b""


def a_directory(name: str, mode: int = 0o755) -> Member:
    return name, {"type": tarfile.DIRTYPE, "mode": mode}, b""
