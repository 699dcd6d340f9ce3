"""The suite that a broker passes, whichever process it works in and whatever an embedder has put around it."""

from __future__ import annotations

from fable_exec.testing.conformance.commands import CommandChecks
from fable_exec.testing.conformance.endings import EndChecks
from fable_exec.testing.conformance.files import FileChecks
from fable_exec.testing.conformance.locks import LockChecks

__all__ = ["BrokerConformance"]


class BrokerConformance(FileChecks, LockChecks, CommandChecks, EndChecks):
    """Subclass it in a test module, as a class whose name begins with Test, and give `make_broker`::

        class TestMyBroker(BrokerConformance):
            def make_broker(self, policy):
                return MyBroker(policy)

    A check that fails is a promise that your broker does not keep. See docs/how-to/test-your-plugin.md.
    """
