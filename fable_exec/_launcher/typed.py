"""What annotations name, and named tuples with types, without `typing`: loading that is a tenth of the launcher's start.

A checker sees the originals. A program sees classes that say as much as it needs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
else:
    from collections import namedtuple

    class _Maker(type):
        """Makes a named tuple of a class body: its annotations are the fields, what they are set to the defaults."""

        def __new__(cls, name, bases, body):
            fields = body["__annotations__"]
            defaults = [body[field] for field in fields if field in body]
            base = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            rest = {key: value for key, value in body.items() if key not in fields}
            return type(name, (base,), {"__slots__": (), **rest})

    Any = NoReturn = Protocol = object
    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})

__all__ = ["Any", "NamedTuple", "NoReturn", "Protocol"]
