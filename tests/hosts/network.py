"""Hosts on one machine: network namespaces on a bridge. Nothing outside of them is changed.

Each host has `eth0`, an address, and names for the others in its own /etc/hosts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PREFIX = "fedkme"
NET = "10.77.0."
NAMED = Path("/run/netns")
FILES = Path("/etc/netns")
"""Folder where `ip netns exec` finds what stands in for files of /etc."""


@dataclass(frozen=True, slots=True)
class Poor:
    """A link on which each packet is late, and some are lost; each way."""

    delay_ms: float
    loss: float


def ip(*arguments: str) -> None:
    """Run `ip`.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def why_not() -> str:
    """Reason why no namespaces can be made here; empty where they can."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if os.geteuid() != 0:
        return "they need root"
    try:
        with Network("probe", label="probe"):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return str(getattr(error, "stderr", "") or error).strip()


class Network:
    """Some hosts, until it is closed."""

    def __init__(
        self,
        *hosts: str,
        poor: Mapping[str, Poor] | None = None,
        label: str = "",
        domain: str = "example.org",
    ) -> None:
        """Make them.

        Args:
            hosts: their names.
            poor: hosts with a poor link.
            label: tells it from the other networks of this process.
            domain: hosts call each other by it too: north, and north.DOMAIN.
        """
        self.means = ""
        self._label = label
        self._cables: list[subprocess.Popen[str]] = []
        self._hosts = hosts
        _sweep()
        try:
            self._build(poor or {}, domain)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def address(self, host: str) -> str:
        """The IP address of a host."""
        return f"{NET}{self._hosts.index(host) + 1}"

    def within(self, host: str, *command: str) -> list[str]:
        """A command on a host; the process that starts it becomes it."""
        return ["ip", "netns", "exec", self._space(host), *command]

    def lead(self, host: str, name: str, other: str) -> None:
        """Let a host, on which nothing runs yet, find another host by this name."""
        names = FILES / self._space(host) / "hosts"
        text = names.read_text()
        names.write_text(text.replace(f"{self.address(name)} {name} ", f"{self.address(other)} {name} "))

    def forbid(self, host: str, other: str) -> None:
        """Let no packet of a host reach another one."""
        ip("-n", self._space(host), "route", "add", "unreachable", f"{self.address(other)}/32")

    def cut(self, host: str) -> None:
        """Pull a host's cable."""
        ip("-n", self._space("switch"), "link", "set", host, "down")

    def mend(self, host: str) -> None:
        """Plug it in again."""
        ip("-n", self._space("switch"), "link", "set", host, "up")

    def close(self) -> None:
        """Remove everything."""
        for cable in self._cables:
            cable.kill()
            cable.communicate()
        for host in ("switch", *self._hosts):
            _remove(self._space(host))

    def _space(self, host: str) -> str:
        return f"{PREFIX}-{os.getpid()}-{self._label}{host}"

    def _build(self, poor: Mapping[str, Poor], domain: str) -> None:
        switch = self._space("switch")
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "bridge", "up", "type", "bridge")
        names = [f"{self.address(host)} {host} {host}.{domain}" for host in self._hosts]
        for host in self._hosts:
            space = self._space(host)
            files = FILES / space
            files.mkdir(parents=True)
            (files / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
            if not (host in poor and self._poor_cable(host, poor[host])):
                ip("-n", switch, "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("-n", switch, "link", "set", host, "master", "bridge", "up")
            ip("-n", space, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            if host in poor and not self.means.startswith("TAP"):
                self._netem(host, poor[host])

    def _poor_cable(self, host: str, link: Poor) -> bool:
        """A cable of our own where the kernel has no netem."""
        if _has_netem(self._space("switch")):
            return False
        self.means = "TAP devices and a process between them"
        script = str(Path(__file__).with_name("poor_link.py"))
        far = f"{host}-far"
        command = [sys.executable, script, host, far, str(link.delay_ms), str(link.loss)]
        cable = subprocess.Popen(self.within("switch", *command), stdout=subprocess.PIPE, text=True)
        self._cables.append(cable)
        assert cable.stdout is not None
        if cable.stdout.readline() != "ready\n":
            raise OSError("the kernel has neither netem nor TAP devices")
        ip("-n", self._space("switch"), "link", "set", far, "netns", self._space(host), "name", "eth0")
        return True

    def _netem(self, host: str, link: Poor) -> None:
        self.means = "tc netem"
        how = ("netem", "delay", f"{link.delay_ms}ms", "loss", f"{100 * link.loss}%")
        for space, device in ((self._space("switch"), host), (self._space(host), "eth0")):
            subprocess.run(["tc", "-n", space, "qdisc", "add", "dev", device, "root", *how], check=True)


def _has_netem(space: str) -> bool:
    """Check whether this kernel knows netem, tried on the bridge."""
    if shutil.which("tc") is None:
        return False
    change = ("tc", "-n", space, "qdisc", "{}", "dev", "bridge", "root", "netem", "delay", "1ms")
    tried = [
        subprocess.run([word.format(verb) for word in change], capture_output=True, check=False)
        for verb in ("add", "del")
    ]
    return tried[0].returncode == 0


def _remove(space: str) -> None:
    if (NAMED / space).exists():
        ip("netns", "del", space)
    shutil.rmtree(FILES / space, ignore_errors=True)


def _sweep() -> None:
    """Remove what a test process that was killed left behind."""
    left: Sequence[Path] = [*NAMED.glob(f"{PREFIX}-*"), *FILES.glob(f"{PREFIX}-*")]
    for space in {path.name for path in left}:
        pid = space.split("-")[1]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            _remove(space)
