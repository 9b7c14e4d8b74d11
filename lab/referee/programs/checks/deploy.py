"""Files of deploy/: Open Container labels of the image; units by `systemd-analyze verify`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import lab

DEPLOY = Path(lab.__file__).parents[1] / "deploy"
LABELS = ("title", "description", "authors", "licenses", "version")
"""Labels of the specification's annotations, without those that name a host or a commit."""

folder = Path(sys.argv[1])
dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
stated = dict(re.findall(r'\borg\.opencontainers\.image\.([a-z.]+)="([^"]+)"', dockerfile))
figures: dict[str, float | str] = {"image labels there": float(sum(name in stated for name in LABELS))}
if program := shutil.which("systemd-analyze"):
    units = []
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        text = unit.read_text(encoding="utf-8")  # the program is not installed on this machine
        units.append(folder / unit.name)
        units[-1].write_text(text.replace("/opt/fedkme/bin/fedkme", "/bin/true"), encoding="utf-8")
    checked = subprocess.run([program, "verify", *units], capture_output=True, text=True, check=False)
    lines = [line for line in checked.stderr.splitlines() if line.startswith(("fedkme-", str(folder)))]
    print(*lines, sep="\n")
    figures["complaints about units"] = float(max(len(lines), checked.returncode != 0))
else:
    figures["complaints about units"] = "there is no systemd-analyze"
(folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
