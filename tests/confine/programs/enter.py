"""Perform plan steps as the launcher does, then become the command: `enter.py PROJECT STEPS_JSON command argument ...`.

Runs outside pytest's own process: nothing can take these steps back.
"""

import json
import os
import sys

sys.path.insert(0, sys.argv[1])

from fable_exec._launcher import kernel
from fable_exec._launcher.confine_steps import CONFINE_STEPS

for name, *arguments in json.loads(sys.argv[2]):
    if name == "no_new_privileges":
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    else:
        CONFINE_STEPS[name](*arguments)
os.execvp(sys.argv[3], sys.argv[3:])
