"""How many examples `make fuzz` gives a property: what the profile says, or a tenth of that where an example is slow."""

from __future__ import annotations

import hypothesis

_FEWEST = 30

A_TENTH = hypothesis.settings(max_examples=max(_FEWEST, hypothesis.settings.default.max_examples // 10))
"""For a property that takes more than two milliseconds an example; not in pathguard, protocol, server and frames, whose input is
an attacker's. `@A_TENTH` stands below `@pytest.mark.fuzz`."""
