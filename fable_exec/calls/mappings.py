"""Wire requests as mappings, at a door that is called rather than written to: what the wire says of them is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fable_exec.errors import PathNotFound
from fable_exec.protocol import InspectFiles, Request

__all__ = ["MissingFile", "missing_file_is_value_error"]


class MissingFile(PathNotFound, ValueError):
    """A missing file where peers of the protocol expect a ValueError."""


@contextmanager
def missing_file_is_value_error(request: Request) -> Iterator[None]:
    """Around the work on a wire request: let a file that is missing on `inspect_files` be what peers have always known."""
    try:
        yield
    except PathNotFound as error:
        if not isinstance(request, InspectFiles):
            raise
        raise MissingFile(str(error), reason=error.reason, path=error.path, errno=error.errno) from error
