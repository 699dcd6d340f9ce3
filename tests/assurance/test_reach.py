"""What is reachable under a plan: counted by hand of the graph, and changed by every layer that is taken away."""

from __future__ import annotations

import itertools

import attrs
import pytest

from fable_exec.assurance.model import Asset, BlastRadius, Layer, blast_radius
from fable_exec.assurance.model.reach import insisted_ways
from fable_exec.confine import Support, compile_plan
from fable_exec.confine.view import FileView
from fable_exec.policy import Confinement
from tests.assurance import hosts

LAYERS = tuple(Layer)


def radius(support: Support = hosts.CAPABLE, *, writable: bool = False) -> BlastRadius:
    return blast_radius(hosts.plan(support, writable=writable))


@pytest.mark.parametrize("host", hosts.HOSTS)
@pytest.mark.parametrize("writable", [False, True])
def test_how_many_layers_must_fail_agrees_with_trying_all_of_them(host: str, writable: bool) -> None:
    """The fewest layers without which the graph reaches the asset, out of all sets of layers."""
    found = radius(hosts.HOSTS[host], writable=writable)
    fewest: dict[Asset, int] = {}
    for count in range(len(LAYERS) + 1):
        for failed in itertools.combinations(LAYERS, count):
            for asset in found.reached(failed):
                fewest.setdefault(asset, count)
    assert fewest == {each.asset: len(each.worst.layers) for each in found.assets}
    assert {each.asset: each.brittleness for each in found.assets} == {asset: 1 / (1 + count) for asset, count in fewest.items()}
    assert found.reached() == {each.asset for each in found.assets if each.reachable}


@pytest.mark.parametrize("host", [name for name in hosts.HOSTS if name != "all"])
def test_a_layer_less_is_seen(host: str) -> None:
    full, less = radius(), radius(hosts.HOSTS[host])
    assert full != less
    changed = [
        (before, after) for before, after in zip(full.assets, less.assets, strict=True) if before.brittleness != after.brittleness
    ]
    assert changed
    assert host == "no namespaces" or all(before.brittleness < after.brittleness for before, after in changed)


def test_every_layer_of_every_way_is_there_in_some_plan_and_missing_in_another() -> None:
    """No question to a plan has one answer for all of them, but for what is always asked of the host itself."""
    answers: dict[tuple[str, str, Layer], set[bool]] = {}
    confinements = (
        hosts.DEGRADABLE,
        Confinement.off(),
        attrs.evolve(hosts.DEGRADABLE, network="ports", connect_ports=(443,)),
        attrs.evolve(hosts.DEGRADABLE, network="full"),
    )
    supports = [
        *hosts.HOSTS.values(),
        attrs.evolve(hosts.NO_NAMESPACES, landlock_abi=10),
        attrs.evolve(hosts.CAPABLE, landlock_abi=10),
    ]
    for support, confinement, writable in itertools.product(supports, confinements, (False, True)):
        for way in blast_radius(hosts.plan(support, confinement, writable=writable)).ways:
            for layer in LAYERS:
                answers.setdefault((way.asset.value, way.mechanism, layer), set()).add(layer in way.layers)
    used = {key: found for key, found in answers.items() if True in found}
    assert [key for key, found in used.items() if found == {True}] == []
    assert {key[2] for key in used} == set(LAYERS)


def test_the_workspace_is_open_while_unlocked_and_the_plan_says_where_it_is() -> None:
    assert radius(writable=True)[Asset.WORKSPACE].reachable
    assert not radius()[Asset.WORKSPACE].reachable
    assert hosts.plan().workspace == "/srv"


def test_a_mount_that_is_writable_is_seen_in_the_plan_itself() -> None:
    plan = hosts.plan()
    stage = tuple(
        ("bind", "/etc", "/etc", "writable", "optional") if step[:2] == ("bind", "/etc") else step for step in plan.stage
    )
    way = blast_radius(attrs.evolve(plan, stage=stage))[Asset.HOST_FILES].worst
    assert (way.mechanism, way.layers) == ("write a system file", (Layer.LANDLOCK,))


def test_a_filter_that_lets_a_call_through_is_seen_in_the_plan_itself() -> None:
    plan = hosts.plan(hosts.NO_NAMESPACES)
    assert blast_radius(plan)[Asset.NETWORK].worst.layers == (Layer.SECCOMP,)
    open_filter = next(
        step
        for step in hosts.plan(hosts.NO_NAMESPACES, attrs.evolve(hosts.DEGRADABLE, network="full")).launcher
        if step[0] == "load_filter"
    )
    launcher = tuple(open_filter if step[0] == "load_filter" else step for step in plan.launcher)
    assert blast_radius(attrs.evolve(plan, launcher=launcher))[Asset.NETWORK].reachable


def test_an_observed_refusal_is_a_refusal() -> None:
    observed = attrs.evolve(hosts.CAPABLE, notify=0)
    assert blast_radius(hosts.plan(observed)) == radius()


def test_listed_ports_are_open_and_counted_to_no_protection() -> None:
    ports = attrs.evolve(hosts.DEGRADABLE, network="ports", connect_ports=(443,))
    found = blast_radius(hosts.plan(confinement=ports))[Asset.NETWORK]
    assert found.reachable and found.worst.protection == ""
    assert {way.mechanism: way.layers for way in found.ways if way.protection} == {
        "connect by TCP": (Layer.LANDLOCK,),
        "send datagrams": (Layer.SECCOMP,),
    }


def test_what_a_policy_insists_on_is_what_it_makes_strict() -> None:
    policy = hosts.policy()
    plan = compile_plan("auto", hosts.CAPABLE, policy.confinement, FileView(workspace="/srv", writable=True))
    insisted = {way.protection for way in insisted_ways(policy, blast_radius(plan), writable=True)}
    assert insisted == {"host_writes", "host_reads", "network", "host_sockets", "kernel_surface"}
    locked = {way.protection for way in insisted_ways(policy, blast_radius(plan), writable=False)}
    assert locked == insisted | {"workspace_writes"}
    opened = hosts.policy(confinement=Confinement(network="full"))
    assert "network" not in {way.protection for way in insisted_ways(opened, blast_radius(plan), writable=True)}


def test_an_asset_as_an_object() -> None:
    network = next(each for each in radius().to_json() if each["asset"] == "network")
    assert network == {
        "asset": "network",
        "reachable": False,
        "brittleness": 0.5,
        "ways": [
            {"mechanism": "connect by TCP", "protection": "network", "layers": ["network namespace"]},
            {"mechanism": "send datagrams", "protection": "network", "layers": ["network namespace"]},
        ],
    }


def test_a_workspace_below_tmp_has_one_layer_before_its_files_while_locked() -> None:
    """Landlock's rule for the private /tmp holds for what is mounted below it; elsewhere there are two."""
    layers = {}
    for workspace in ("/srv/work", "/tmp/work"):
        plan = compile_plan("auto", hosts.CAPABLE, Confinement(), FileView(workspace=workspace, writable=False))
        layers[workspace] = next(way.layers for way in blast_radius(plan).ways if way.mechanism == "write a file")
    assert layers == {"/srv/work": (Layer.MOUNTS, Layer.LANDLOCK), "/tmp/work": (Layer.MOUNTS,)}


def test_what_a_root_of_its_own_holds_may_all_be_read() -> None:
    """Of credentials the mounts are the one layer there; in plain mode the rules are."""
    assert radius()[Asset.CREDENTIALS].worst.layers == (Layer.MOUNTS,)
    assert radius(hosts.NO_NAMESPACES)[Asset.CREDENTIALS].worst.layers == (Layer.LANDLOCK,)
