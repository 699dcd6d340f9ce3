"""The admin's door: unlock, lock, status, shutdown, over channels that no model can reach.

Nothing below can name this room, so no request of a model's can become a command here (import-linter holds it).
"""

from __future__ import annotations

from fable_exec.admin.channels import AdminChannel, open_channels
from fable_exec.admin.command_file import CommandFileChannel
from fable_exec.admin.control import AdminControl
from fable_exec.admin.descriptor import DescriptorChannel
from fable_exec.admin.sockets import SocketChannel

__all__ = [
    "AdminChannel",
    "AdminControl",
    "CommandFileChannel",
    "DescriptorChannel",
    "SocketChannel",
    "open_channels",
]
