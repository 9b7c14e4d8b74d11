"""Issue 36, item 10: manifests that Kubernetes accepts, and pods whose files and commands are the product's.

`kubectl` is stood in for: it writes down what it is told to make. Pods are processes on a machine of the
tests, with files where their volumes are mounted, as the kubelet lays them: links to a folder
that it replaces.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedkme.errors import IdentityError
from tests.fedkme.pki.verbs import pki
from tests.hosts.guide import blocks
from tests.hosts.machine import DEPLOY, PARTIES, Machine, entrypoint
from tests.hosts.parties import Party
from tests.places import ROOT

VERSIONS = ("1.29", "1.37")
"""Oldest and newest release: pods have had disks of their own (ReadWriteOncePod) since 1.29."""
NAMES = ("curator", "owner")
Manifest = dict[str, Any]

KUBECTL = f"""#!{sys.executable}
import base64, json, pathlib, sys
verb, *words = sys.argv[1:]
if verb == "apply":
    option, file = words
    assert option == "--filename" and pathlib.Path(file).is_file()
else:
    kind, *words = words
    if kind == "secret":
        assert words.pop(0) == "generic"
    name, *words = words
    files = {{}}
    for option, value in zip(words[::2], words[1::2], strict=True):
        assert option == "--from-file"
        key, _, path = value.rpartition("=")
        files[key or pathlib.Path(path).name] = pathlib.Path(path).read_bytes()
    text = (lambda data: base64.b64encode(data).decode()) if kind == "secret" else bytes.decode
    kinds = {{"secret": "Secret", "configmap": "ConfigMap"}}
    made = {{"apiVersion": "v1", "kind": kinds[kind], "metadata": {{"name": name}}}}
    made["data"] = {{key: text(data) for key, data in files.items()}}
    place = pathlib.Path(__file__).with_name(f"{{made['kind']}}-{{name}}.json")
    place.write_text(json.dumps(made))
"""


def manifests(name: str) -> list[Manifest]:
    """Objects of a file."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text()))


def configuration(name: str) -> dict[str, Any]:
    """Configuration of deploy/ for a party."""
    return tomllib.loads((DEPLOY / "etc" / f"{name}.toml").read_text())


def pod(name: str) -> Manifest:
    """Specification of a party's pod."""
    (found,) = [each for each in manifests(name) if each["kind"] == "StatefulSet"]
    spec: Manifest = found["spec"]["template"]["spec"]
    return spec


def validate(manifest: Manifest, version: str) -> None:
    """Hold an object to the schema of a release, which must have each of its fields."""
    validator = pytest.importorskip("kubernetes_validate", reason="skipped: no kubernetes-validate")
    validator.validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_manifests_fit_the_schemas_of_kubernetes(name: str, version: str) -> None:
    found = manifests(name)
    assert {"StatefulSet", "NetworkPolicy"} <= {each["kind"] for each in found}
    for manifest in found:
        validate(manifest, version)


def test_a_misspelt_field_does_not_fit() -> None:
    (manifest,) = [each for each in manifests("owner") if each["kind"] == "StatefulSet"]
    manifest["spec"]["template"]["spec"]["terminationGracePeriod"] = 30
    with pytest.raises(Exception, match="terminationGracePeriod"):
        validate(manifest, VERSIONS[-1])


@pytest.mark.parametrize("name", NAMES)
def test_pods_may_do_little_and_are_alone(name: str) -> None:
    # "restricted" of Kubernetes' Pod Security Standards, for the fields that these pods have.
    spec = pod(name)
    (container,) = spec["containers"]
    whole, own = spec["securityContext"], container["securityContext"]
    assert whole["runAsNonRoot"]
    assert f"--uid {whole['runAsUser']} " in (DEPLOY / "Dockerfile").read_text()
    assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    (found,) = [each for each in manifests(name) if each["kind"] == "StatefulSet"]
    assert found["spec"]["replicas"] == 1
    (claim,) = found["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert {*spec} & {"hostNetwork", "hostPID", "hostIPC", "initContainers"} == set()
    kinds = {key for volume in spec["volumes"] for key in volume}
    assert kinds <= {"name", "projected", "secret", "emptyDir"}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_pod_is_called_is_the_same_everywhere(name: str) -> None:
    # A selector that fits no pod is valid, and a service without endpoints.
    (own,) = [each for each in manifests(name) if each["kind"] == "StatefulSet"]
    labels = own["spec"]["template"]["metadata"]["labels"]
    for manifest in manifests(name):
        spec = manifest["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        assert selector.get("matchLabels", selector) == labels
    (container,) = pod(name)["containers"]
    ports = {each["name"]: each["containerPort"] for each in container.get("ports", ())}
    text = (DEPLOY / "kubernetes" / f"{name}.yaml").read_text()
    assert ("port: fedkme" in text or "targetPort: fedkme" in text) == bool(ports)
    configured = configuration(name)
    address = configured.get("listen") or configured["curator"]
    assert f"ort: {address.rpartition(':')[2]}" in text
    assert pod(name)["terminationGracePeriodSeconds"] > configured.get("drain_s", 0) + 5


class Cluster:
    """Objects that the guide's commands made, and pods on a machine."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        home = folder / "home" / "fedkme"
        home.mkdir(parents=True)
        for role, party in PARTIES.items():
            name = "curator.pem" if role == "curator" else f"{party}.pem"
            shutil.copy(machine.etc / f"{role}.pem", home / name)
        for file in ("schema.toml", "revoked.pem"):
            shutil.copy(machine.etc / file, home)
        shutil.copy(ROOT / "examples" / "own-files" / "north.csv", home)
        self.home = home
        self._tools = folder / "tools"
        self._tools.mkdir()
        (self._tools / "kubectl").write_text(KUBECTL)
        (self._tools / "kubectl").chmod(0o755)

    def type(self, script: str) -> None:
        """Type lines of the guide in the clone."""
        environment = {
            **os.environ,
            "HOME": str(self.home.parent),
            "PATH": f"{self._tools}:{os.environ['PATH']}",
        }
        subprocess.run(["bash", "-euc", script], cwd=ROOT, env=environment, check=True)

    def made(self) -> Iterator[Manifest]:
        """ConfigMaps and Secrets."""
        yield from (json.loads(path.read_text()) for path in sorted(self._tools.glob("*-*.json")))

    def files(self, volume: Manifest) -> dict[str, bytes]:
        """Files of a volume."""
        found: dict[str, bytes] = {}
        for source in volume["projected"]["sources"] if "projected" in volume else [volume]:
            ((kind, which),) = ((key, value) for key, value in source.items() if key != "name")
            name = which.get("name") or which["secretName"]
            (made,) = (
                each
                for each in self.made()
                if each["kind"].lower() == kind.lower() and each["metadata"]["name"] == name
            )
            read = base64.b64decode if kind == "secret" else str.encode
            found |= {file: read(data) for file, data in made["data"].items()}
        return found

    def mount(self, name: str) -> None:
        """Lay the files of a pod's volumes where they are mounted, or replace them."""
        spec = pod(name)
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for mount in spec["containers"][0]["volumeMounts"]:
            volume = volumes.get(mount["name"], {"emptyDir": {}})
            if "emptyDir" in volume:
                continue
            place = Path(self.machine.moved(mount["mountPath"]))
            mode = volume.get("projected", volume.get("secret"))["defaultMode"]
            files = self.files(volume)
            if "subPath" in mount:
                place.write_bytes(files[mount["subPath"]])
                place.chmod(mode)
            else:
                self._lay(place, files, mode)

    def _lay(self, place: Path, files: dict[str, bytes], mode: int) -> None:
        data = place / f"..{len(list(place.glob('..[0-9]*')))}"
        data.mkdir()
        for file, content in files.items():
            text = self.machine.moved(content.decode()) if file.endswith(".toml") else content.decode()
            (data / file).write_text(text)
            (data / file).chmod(mode)
        (place / "..new").symlink_to(data.name)
        (place / "..new").rename(place / "..data")
        for file in files:
            if not (place / file).is_symlink():
                (place / file).symlink_to(f"..data/{file}")

    def start(self, name: str) -> Party:
        """Start a pod's container."""
        (container,) = pod(name)["containers"]
        return self.machine.start(f"{entrypoint()} {shlex.join(container['args'])}")

    def probe(self, name: str, party: Party) -> None:
        """Ask as a pod's probes do, of a party whose port of figures is another one here."""
        (container,) = pod(name)["containers"]
        probes = [container[each] for each in ("startupProbe", "livenessProbe")]
        assert "exec" in probes[1]
        configured = configuration(name)["metrics"].rpartition(":")[2]
        here = party.until("metrics")["address"].rpartition(":")[2]
        for python, option, script in (each["exec"]["command"] for each in probes if "exec" in each):
            assert python == "/opt/fedkme/bin/python"
            assert script.count(configured) == 1
            subprocess.run([sys.executable, option, script.replace(configured, here)], check=True)


def test_pods_of_the_guide_run_and_read_what_is_renewed(machine: Machine, tmp_path: Path) -> None:
    cluster = Cluster(machine, tmp_path)
    for file in machine.etc.iterdir():
        if file.name not in ("consumer.pem", "schema.toml", "revoked.pem"):
            file.unlink()
    (machine.root / "var" / "lib" / "fedkme" / "rows.csv").unlink()
    consumer_files = [machine.etc / each for each in ("schema.toml", "revoked.pem")]
    scripts = [block.script for block in blocks() if block.host == "kubernetes"]
    assert len(scripts) == len(NAMES)
    for script in scripts:
        cluster.type(script)
    for file in consumer_files:
        file.unlink()
    for manifest in cluster.made():
        for version in VERSIONS:
            validate(manifest, version)
    started = {}
    for name in NAMES:
        cluster.mount(name)
        party = started[name] = cluster.start(name)
        if name == "curator":
            machine.address = party.until("listening")["address"]
        else:
            party.until("joined")
        cluster.probe(name, party)
    machine.configure("consumer")
    consumer = machine.start(f"{entrypoint()} consumer summary /etc/fedkme/consumer.toml")
    assert consumer.ended() == 0, consumer.events
    assert consumer.said("received")[0]["rows"] == 20
    # the volume brings a list on which the owner is
    pki("revoke", PARTIES["owner"], "--authority", machine.root / "ca")
    shutil.copy(machine.root / "ca" / "revoked.pem", cluster.home)
    cluster.type(scripts[0])
    cluster.mount("curator")
    # it is read when somebody connects
    machine.start(f"{entrypoint()} consumer summary /etc/fedkme/consumer.toml")
    started["curator"].until("revocations_read")
    assert started["owner"].ended() == IdentityError.code
    assert started["curator"].stop() == 0
