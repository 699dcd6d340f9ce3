"""`python -m fable_exec.server`: one broker on standard input and output."""

from __future__ import annotations

import sys

from fable_exec.server.program import main

if __name__ == "__main__":
    sys.exit(main())
