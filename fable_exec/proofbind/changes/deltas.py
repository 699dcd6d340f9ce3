"""Objects that a pack holds as what to do to another one. Source: gitformat-pack(5), under "Deltified representation"."""

from __future__ import annotations

from fable_exec.proofbind.changes.forms import MAX_OBJECT_BYTES, damaged, too_large

__all__ = ["applied", "bytes_made"]


def applied(delta: bytes, base: bytes, oid: str) -> bytes:
    """The object `oid`, made of `base`. CannotTell where the delta is not sound, or not for that base."""
    try:
        return _made(delta, base, oid)
    except (IndexError, ValueError) as error:
        raise damaged(f"a delta of {oid} ({error})") from error


def bytes_made(delta: bytes, oid: str) -> int:
    """How many bytes the delta says that it makes."""
    try:
        return _little_endian(delta, _little_endian(delta, 0)[1])[0]
    except (IndexError, ValueError) as error:
        raise damaged(f"a delta of {oid} ({error})") from error


def _made(delta: bytes, base: bytes, oid: str) -> bytes:
    base_size, position = _little_endian(delta, 0)
    size, position = _little_endian(delta, position)
    if base_size != len(base):
        raise ValueError("made for another base")
    if size > MAX_OBJECT_BYTES:
        raise too_large(oid)
    made = bytearray()
    while position < len(delta):
        order = delta[position]
        position += 1
        if order & 0x80:
            start, position = _chosen_bytes(delta, position, order & 15, 4)
            length, position = _chosen_bytes(delta, position, order >> 4 & 7, 3)
            length = length or 0x10000
            if start + length > len(base):
                raise ValueError("copies from beyond the base")
            made += base[start : start + length]
        elif order:
            made += delta[position : position + order]
            position += order
        else:
            raise ValueError("an order that is reserved")
        if len(made) > size:
            raise ValueError("makes more than it says")
    if len(made) != size:
        raise ValueError("makes less than it says")
    return bytes(made)


def _little_endian(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return value, position
        if shift > 63:
            raise ValueError("a number that is too long")


def _chosen_bytes(data: bytes, position: int, chosen: int, count: int) -> tuple[int, int]:
    """A number of which only the bytes that `chosen` has bits for are written."""
    value = 0
    for number in range(count):
        if chosen >> number & 1:
            value |= data[position] << 8 * number
            position += 1
    return value, position
