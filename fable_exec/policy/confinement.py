"""What the kernel is asked to hold for commands: one value for every platform, see docs/reference/policy.md.

A protection that is "strict" must hold or nothing runs; "degradable" runs and says so in each outcome; "off" is not asked for.
How a kernel does it is `confine`'s affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

import attrs

from fable_exec.policy.fields import numbers, ruled, settle, texts
from fable_exec.policy.forms import readable_path
from fable_exec.policy.rules import Faults, Items, Nested, OneOf, Text, Whole, shown

__all__ = [
    "FILE_PROTECTIONS",
    "PROTECTIONS",
    "RESERVED_DIRECTORIES",
    "SECRET_FILES",
    "Confinement",
    "Mode",
    "Protections",
    "secret_holding",
    "system_directory_in",
]

Mode = Literal["strict", "degradable", "off"]

_MODE = OneOf(("strict", "degradable", "off"))
_PORTS = Items(Whole(1, 65535))


def _protection(default: Mode, meaning: str) -> Mode:
    field: Mode = attrs.field(default=default, metadata=ruled(_MODE, meaning))
    return field


@attrs.frozen(kw_only=True)
class Protections:
    """The mode of each protection."""

    workspace_writes: Mode = _protection("strict", "While writes are locked the whole workspace is read-only for every command.")
    host_writes: Mode = _protection("strict", "Nothing outside the workspace and the private directories can be changed.")
    host_metadata: Mode = _protection("degradable", "Modes, times, owners and attributes of files outside cannot be changed.")
    host_reads: Mode = _protection("strict", "Only listed system paths, runtimes and the workspace can be read.")
    later_files: Mode = _protection("degradable", "Files that run later, such as git hooks, cannot be planted.")
    network: Mode = _protection("strict", "The network is what `network` says.")
    host_sockets: Mode = _protection("strict", "Unix sockets of the host, by path or abstract, cannot be reached.")
    other_processes: Mode = _protection("degradable", "Other processes cannot be seen, signalled, traced or read.")
    whole_tree_end: Mode = _protection("strict", "When a call ends, everything it started has ended.")
    kernel_surface: Mode = _protection("strict", "Kernel interfaces that ordinary programs do not need are refused.")
    resources: Mode = _protection("degradable", "The limits of memory, processes, files and processor time hold.")

    def __attrs_post_init__(self) -> None:
        settle(self)


PROTECTIONS: tuple[str, ...] = tuple(field.name for field in attrs.fields(Protections))
"""Names of all protections, in the order reports use."""

FILE_PROTECTIONS = ("workspace_writes", "host_writes", "host_metadata", "host_reads")
"""Those that one view of the files serves: to ask for one is to ask for the view."""

RESERVED_DIRECTORIES = tuple(
    "/bin /dev /dev/shm /etc /gnu/store /home/command /lib /lib32 /lib64 /libx32 /nix/store /nix/var/nix/profiles /proc "
    "/run/current-system /sbin /sys /sys/devices/system/cpu /sys/devices/system/node /tmp /usr /usr/bin /usr/lib /usr/lib32 "
    "/usr/lib64 /usr/libexec /usr/libx32 /usr/local /usr/local/bin /usr/sbin /var/guix/profiles /var/lib/apt /var/lib/aspell "
    "/var/lib/dpkg /var/lib/gems /var/lib/ghc /var/lib/pacman /var/lib/rpm /var/lib/texmf /var/tmp".split()
)
"""What commands get of the system or of their own; a workspace that is or holds one of these would lay it open or hide it."""


SECRET_FILES = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/master.passwd",
    "/etc/security/opasswd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/krb5.keytab",
    "/etc/ipsec.secrets",
    "/etc/ppp/chap-secrets",
    "/etc/ppp/pap-secrets",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/NetworkManager/system-connections",
    "/etc/netplan",
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/containers/auth.json",
    "/etc/netrc",
    "/etc/fstab",
    "/etc/crypttab",
    "/etc/grub.d",
    "/etc/postgresql",
    "/etc/mysql/debian.cnf",
)
"""Secrets that system packages keep in /etc: empty for commands, also for root, whatever a policy lists."""


def secret_holding(path: PurePath) -> str | None:
    """The first of SECRET_FILES that `path` is or lies in; None where it is beside them all, or above one."""
    return next((secret for secret in SECRET_FILES if path.is_relative_to(secret)), None)


def system_directory_in(path: PurePath) -> str | None:
    """The first of RESERVED_DIRECTORIES that `path` is or holds; None where it is beside them all, or below one."""
    return next((reserved for reserved in RESERVED_DIRECTORIES if PurePath(reserved).is_relative_to(path)), None)


_WITHOUT_NETWORK = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}
"""npm tries again for more than a minute before it says that a name cannot be found, pip for 8 seconds."""
_NAMESPACES_GIVE = ("whole_tree_end", "other_processes")
"""What the launcher has namespaces for in any case: they end trees, and hide others besides."""


@attrs.frozen(kw_only=True)
class Confinement:
    """What commands may touch besides the workspace: `strict()` unless a policy says otherwise, also where it says a part."""

    protections: Protections = attrs.field(
        factory=Protections, metadata=ruled(Nested(Protections), "How much each protection is insisted on.")
    )
    network: Literal["off", "ports", "full"] = attrs.field(
        default="off",
        metadata=ruled(
            OneOf(("off", "ports", "full")),
            "off is a network of its own, loopback only; ports is TCP to and on the listed ports; full is the host's network.",
        ),
    )
    connect_ports: tuple[int, ...] = attrs.field(
        default=(), converter=numbers, metadata=ruled(_PORTS, "TCP ports that commands may connect to when network is ports.")
    )
    bind_ports: tuple[int, ...] = attrs.field(
        default=(), converter=numbers, metadata=ruled(_PORTS, "TCP ports that commands may listen on when network is ports.")
    )
    runtime_read_paths: tuple[str, ...] = attrs.field(
        default=(),
        converter=texts,
        metadata=ruled(
            Items(Text(readable_path, {"minLength": 1})), "More absolute paths that commands may read and execute from."
        ),
    )
    runtime_write_paths: tuple[str, ...] = attrs.field(
        default=(),
        converter=texts,
        metadata=ruled(
            Items(Text(readable_path, {"minLength": 1})),
            "Absolute paths outside the workspace that commands may write while writes are unlocked, and read while not.",
        ),
    )
    reserved_ports: tuple[int, ...] = attrs.field(
        default=(),
        converter=numbers,
        metadata=ruled(_PORTS, "TCP ports that commands may neither listen on nor connect to, whatever network says."),
    )
    planted_files: Literal["neutralise", "report", "fail"] = attrs.field(
        default="neutralise",
        metadata=ruled(
            OneOf(("neutralise", "report", "fail")),
            "What happens to a file that a command planted to run later: made harmless, reported, or harmless and no success.",
        ),
    )

    observe: Literal["off", "changes", "reads"] = attrs.field(
        default="changes",
        metadata=ruled(
            OneOf(("off", "changes", "reads")),
            "Which refusals are told in `denials`: none, of changes and connections, or of files opened for reading as well.",
        ),
    )

    def __attrs_post_init__(self) -> None:
        settle(self)

    @staticmethod
    def cross_faults(checked: Mapping[str, Any]) -> Faults:
        """What is wrong between fields; those that are faulty themselves, or keep their default, may be missing."""
        listed = {name: checked.get(name, ()) for name in ("runtime_read_paths", "runtime_write_paths")}
        return [*_held_by_writable(listed["runtime_write_paths"]), *_listed_secrets(listed), *_port_faults(checked)]

    @classmethod
    def strict(cls) -> Confinement:
        """The defaults of the fields: workspace only, system paths read-only, credentials absent, network off."""
        return cls()

    @classmethod
    def off(cls) -> Confinement:
        """For hosts that cannot confine: no protection but the end of the whole tree, as far as it goes here.

        A command that may run has all rights of its user then, and while writes are locked only known readers run.
        """
        modes: dict[str, Mode] = dict.fromkeys(PROTECTIONS, "off")
        modes.update(dict.fromkeys(_NAMESPACES_GIVE, "degradable"))
        return cls(protections=Protections(**modes), network="full")

    @classmethod
    def named(cls, word: str) -> Confinement:
        """The one that a flag names: "strict" or "off". KeyError for any other word."""
        return {"strict": cls.strict, "off": cls.off}[word]()

    @property
    def confines_files(self) -> bool:
        """Whether any protection of files is asked for."""
        return any(self.mode(name) != "off" for name in FILE_PROTECTIONS)

    @property
    def asks_for_nothing(self) -> bool:
        """Whether nothing is to be held but the end of the tree, as in `off`."""
        return all(self.mode(name) == "off" for name in PROTECTIONS if name not in _NAMESPACES_GIVE)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that go with the network that commands surely have, for where nobody else sets them."""
        return _WITHOUT_NETWORK if self.network == "off" and self.mode("network") == "strict" else {}

    def mode(self, protection: str) -> Mode:
        """How much `protection` is insisted on."""
        mode: Mode = getattr(self.protections, protection)
        return mode


def _held_by_writable(paths: tuple[str, ...]) -> Faults:
    held = ((index, path, system_directory_in(PurePath(path))) for index, path in enumerate(paths))
    return [
        (f"runtime_write_paths[{index}]", f"is or holds {system}, which commands get from the system: {shown(path)}")
        for index, path, system in held
        if system is not None
    ]


def _listed_secrets(listed: Mapping[str, tuple[str, ...]]) -> Faults:
    """What would be listed in vain."""
    found = ((f"{name}[{index}]", path) for name, paths in listed.items() for index, path in enumerate(paths))
    return [
        (field, f"is or lies in {secret}, which is empty for confined commands: {shown(path)}")
        for field, path in found
        if (secret := secret_holding(PurePath(path))) is not None
    ]


def _port_faults(checked: Mapping[str, Any]) -> Faults:
    """Open ports mean something in one network mode only, and none of them can be reserved."""
    listed = {name: checked.get(name, ()) for name in ("connect_ports", "bind_ports")}
    if checked.get("network", "off") != "ports":
        return [(name, 'only for network = "ports"') for name, ports in listed.items() if ports]
    reserved = set(checked.get("reserved_ports", ()))
    return [(name, "lists a port that reserved_ports lists too") for name, ports in listed.items() if reserved & set(ports)]
