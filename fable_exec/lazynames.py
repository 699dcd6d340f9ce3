"""Names of a package that are loaded when somebody first asks for them (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["on_demand"]


def on_demand(package: str, modules: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package. A name that was asked for once is an ordinary one of the package.

    Give them to it where no type checker looks, or any name of the package is right to it.

    Args:
        package: the `__name__` of the package, which is being loaded; its `__all__` has every name that it gives out.
        modules: by the full name of a module, the names that come from it.
    """
    namespace = vars(sys.modules[package])
    module_of = {name: module for module, names in modules.items() for name in names}

    def attribute(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = namespace[name] = getattr(importlib.import_module(module_of[name]), name)
        return found

    def names() -> list[str]:
        return sorted({*namespace, *namespace["__all__"]})

    return attribute, names
