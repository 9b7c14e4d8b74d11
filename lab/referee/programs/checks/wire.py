"""Answers of a running curator to grpc's own clients of health and reflection; its metrics by promtool."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICES = ("fedkme.v1.Owners", "fedkme.v1.Summaries")
WAIT_S = 30

CONFIG = """
listen = "127.0.0.1:0"
plaintext = true
metrics = "127.0.0.1:0"
log = "json"
schema_file = "schema.toml"
directory = "runs"
journal = "curator.db"
"""
SCHEMA = '[[columns]]\nname = "age"\nkind = "numeric"\nbounds = [0.0, 100.0]\n'


def addresses(curator: subprocess.Popen[str]) -> dict[str, str]:
    """Read the curator's log until it listens; addresses of its metrics and its port by event."""
    by_event: dict[str, str] = {}
    assert curator.stderr is not None
    for line in curator.stderr:
        print(line, end="")
        event = json.loads(line) if line.startswith("{") else {}
        if "address" in event:
            by_event[event["event"]] = event["address"]
        if "listening" in by_event:
            return by_event
    raise SystemExit("the curator ended before it listened")


def answers(address: str) -> dict[str, bool]:
    """Ask by the clients of grpcio-health-checking and grpcio-reflection; an answer is right or not."""
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(WAIT_S)
        health = health_pb2_grpc.HealthStub(channel)
        request, serving = health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse.SERVING
        right = {
            f"health of '{name}'": health.Check(request(service=name), timeout=WAIT_S).status == serving
            for name in ("", *SERVICES)
        }
        first = next(iter(health.Watch(request(service=""), timeout=WAIT_S)))
        right["health, watched"] = first.status == serving
        try:
            health.Check(request(service="no.such.Service"), timeout=WAIT_S)
            right["health of no service"] = False
        except grpc.RpcError as error:
            right["health of no service"] = error.code() is grpc.StatusCode.NOT_FOUND
        database = ProtoReflectionDescriptorDatabase(channel)
        right["services listed"] = {*SERVICES, "grpc.health.v1.Health"} <= set(database.get_services())
        for name in SERVICES:
            file = database.FindFileContainingSymbol(name)
            right[f"descriptor of {name}"] = name.rpartition(".")[2] in [each.name for each in file.service]
        return right


def complaints(text: bytes, promtool: str) -> float:
    """Count the lines that `promtool check metrics` writes."""
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    lines = (checked.stdout + checked.stderr).decode().strip().splitlines()
    print(*lines, sep="\n")
    return float(max(len(lines), checked.returncode != 0))


def main(folder: Path) -> None:
    """Start a curator, ask it, and end it."""
    given = json.loads((folder / "task.json").read_text(encoding="utf-8"))["given"]
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    (folder / "curator.toml").write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "curator", "serve", str(folder / "curator.toml")]
    curator = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        by_event = addresses(curator)
        right = answers(by_event["listening"])
        print(right)
        figures: dict[str, float | str] = {"answers to grpc's clients": float(sum(right.values()))}
        if "promtool" in given:
            with urllib.request.urlopen(f"http://{by_event['metrics']}/metrics", timeout=WAIT_S) as page:
                figures["complaints about metrics"] = complaints(page.read(), given["promtool"])
        else:
            figures["complaints about metrics"] = "no promtool: install it, or give --given promtool=PATH"
    finally:
        curator.terminate()
        curator.wait(WAIT_S)
    (folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
