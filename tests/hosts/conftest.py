"""A network of hosts, certificates for everybody, and sites of parties that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fedkme.pki.verbs import pki
from tests.hosts.machine import Machine
from tests.hosts.network import Network, Poor, why_not
from tests.hosts.parties import OWNERS, Site

HOSTS = ("curator", "lab", *OWNERS, "attic")
POOR = dict.fromkeys(OWNERS, Poor(delay_ms=5, loss=0.02))
"""5 ms and 2 % each way: a round takes 20 ms and more, 0.2 s more where only a timer notices a loss."""


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip where there can be none."""
    if why := why_not():
        pytest.skip(f"skipped: no network namespaces can be made here: {why}")


@pytest.fixture(scope="session")
def network(namespaces: None) -> Iterator[Network]:
    """Every party on a host of its own; the attic has nobody."""
    with Network(*HOSTS) as made:
        yield made


@pytest.fixture(scope="session")
def poor_network(namespaces: None, network: Network) -> Iterator[Network]:
    """Network of the hosts in which owners' links are poor."""
    with Network(*HOSTS, poor=POOR, label="poor") as made:
        yield made


@pytest.fixture(scope="session")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ca`, and a bundle for each party."""
    folder = tmp_path_factory.mktemp("identities")
    pki("init", folder / "ca")
    for party in ("curator", "lab", *OWNERS):
        role = {"curator": "curator", "lab": "consumer"}.get(party, "owner")
        hosts = ("--host", "curator", "--host", "curator.example.org") if party == "curator" else ()
        out = folder / f"{party}.pem"
        pki("issue", party, "--role", role, *hosts, "--authority", folder / "ca", "--out", out)
    return folder


@pytest.fixture
def make_site(identities: Path, tmp_path: Path) -> Iterator[Callable[[Network], Site]]:
    """Makes a site on a network."""
    made: list[Site] = []

    def make(network: Network) -> Site:
        made.append(Site(network, tmp_path / f"site-{len(made)}", identities))
        return made[-1]

    yield make
    for site in made:
        site.close()


@pytest.fixture
def site(network: Network, make_site: Callable[[Network], Site]) -> Site:
    """A site on good links."""
    return make_site(network)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine; its processes end with the test."""
    made = Machine(tmp_path / "root")
    yield made
    for party in made.parties:
        party.process.kill()
        party.ended()
