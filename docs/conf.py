"""Sphinx configuration. `make docs` treats every warning as an error."""

from __future__ import annotations

import tomllib
from pathlib import Path

_project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]

project = "fable_exec"
author = "The fable_exec authors"
version = release = _project["version"]
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"fable_exec {version}"
html_show_copyright = False
