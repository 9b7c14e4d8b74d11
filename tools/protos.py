"""Generate fedkme/wire/v1 from protos/; with --check, fail when what is checked in is out of date."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
TARGET = ROOT / "fedkme" / "wire" / "v1"
_REST = re.compile(
    r"^import warnings\n|^GRPC_GENERATED_VERSION.*?^    \)\n\n|^if not _descriptor\._USE_C_DESCRIPTORS.*"
    r"|^ # This class is part of an EXPERIMENTAL API\..*",
    re.MULTILINE | re.DOTALL,
)
"""Parts that no call needs: a check of the version of grpc, which pyproject.toml requires; offsets for
copies of descriptors without the C library; calls without a channel."""


def generate(target: Path) -> None:
    """Write the stubs of every .proto file into `target`."""
    files = sorted(PROTOS.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        outputs = [f"--{kind}_out={scratch}" for kind in ("python", "pyi", "grpc_python")]
        arguments = ["protoc", f"-I{PROTOS}", *outputs, *(str(file) for file in files)]
        if protoc.main(arguments) != 0:
            raise SystemExit("protoc failed")
        target.mkdir(parents=True, exist_ok=True)
        (target / "__init__.py").write_text('"""Generated from protos/fedkme/v1 by `make protos`."""\n')
        for file in sorted(Path(scratch, "fedkme", "v1").iterdir()):
            # protoc writes imports for the package fedkme.v1; the stubs live in fedkme.wire.v1
            text = re.sub(
                r"^from fedkme\.v1 import", "from fedkme.wire.v1 import", file.read_text(), flags=re.M
            )
            if not file.name.endswith("_grpc.py") or "Servicer" in text:  # no stubs without calls
                (target / file.name).write_text(_REST.sub("", text).rstrip() + "\n")


def main() -> None:
    """Generate in place, or compare."""
    if "--check" not in sys.argv[1:]:
        generate(TARGET)
        return
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        generate(fresh)
        names = {file.name for folder in (fresh, TARGET) for file in folder.glob("*.py*") if file.is_file()}
        stale = [
            name
            for name in sorted(names)
            if not (fresh / name).exists()
            or not (TARGET / name).exists()
            or (fresh / name).read_text() != (TARGET / name).read_text()
        ]
    if stale:
        raise SystemExit(f"out of date: {', '.join(stale)}. Run `make protos`.")


if __name__ == "__main__":
    main()
