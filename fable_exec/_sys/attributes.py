"""What a file has beside its bytes, owner and mode: its access control list and the user's attributes. Linux; elsewhere nothing.

With a list the group bits of a mode are a mask and no right of the group (acl(5)): a file of the same mode without the list
gives the group what it had not. `security.*` is left alone, capabilities among it.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator, Mapping

if sys.platform == "linux":
    import os

__all__ = ["ACCESS_LIST", "HAS_ATTRIBUTES", "attributes_of", "give_attributes"]

HAS_ATTRIBUTES = sys.platform == "linux"
ACCESS_LIST = "system.posix_acl_access"
_KEPT = (ACCESS_LIST, "user.")
_NONE_TO_TELL = (errno.ENOTSUP, errno.ENODATA, errno.EACCES, errno.ENOENT)
_CANNOT_BE_GIVEN = (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.EINVAL)


def attributes_of(handle: int) -> dict[str, bytes]:
    """Those of the regular file that a handle (O_PATH) is on. Of the user's only who may read the file learns (xattr(7))."""
    found: dict[str, bytes] = {}
    if sys.platform == "linux":
        place = f"/proc/self/fd/{handle}"
        for name in _names(place):
            with _unless(_NONE_TO_TELL):
                found[name] = os.getxattr(place, name)
    return found


def give_attributes(fd: int, attributes: Mapping[str, bytes]) -> frozenset[str]:
    """Give an open file of ours these and no other list, such as its directory's default; return what it could not be given.

    Raises: OSError, such as ENOSPC, where it is not for want of a right or an ability.
    """
    given: set[str] = set()
    if sys.platform == "linux":
        if ACCESS_LIST not in attributes and ACCESS_LIST in _names(fd):
            os.removexattr(fd, ACCESS_LIST)
        for name, value in attributes.items():
            with _unless(_CANNOT_BE_GIVEN):
                os.setxattr(fd, name, value)
                given.add(name)
    return frozenset(attributes.keys() - given)


if sys.platform == "linux":

    def _names(place: str | int) -> list[str]:
        with _unless(_NONE_TO_TELL):
            return [name for name in os.listxattr(place) if name.startswith(_KEPT)]
        return []


@contextlib.contextmanager
def _unless(numbers: tuple[int, ...]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise
