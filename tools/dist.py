"""Build what is published: wheel, source archive, list of components; `make dist URL=https://...` calls it.

The package is built from the last commit, not from the folder: the README gets absolute links to the
project's address at the version's tag, so that it reads the same on a package index, and every file carries
the commit's time, so that whoever builds the same commit gets the same wheel, bit for bit.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


def absolute_links(text: str, url: str, tag: str) -> str:
    """Links of a README with the project's address in front: pictures as files, all else as pages.

    Args:
        text: Markdown with links relative to the root of the repository.
        url: address of the project, without a slash at its end.
        tag: tag of the version, such as v0.2.0.
    """

    def absolute(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        return f"{picture}[{words}]({url}/{'raw' if picture else 'blob'}/{tag}/{target})"

    return _LINK.sub(absolute, text)


def project_urls(url: str, tag: str) -> str:
    """Return the section of pyproject.toml that names the project's pages."""
    pages = {
        "Homepage": url,
        "Documentation": f"{url}/tree/{tag}/docs",
        "Changelog": f"{url}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
    return "\n[project.urls]\n" + "".join(f'{name} = "{page}"\n' for name, page in pages.items())


def build(url: str, commit: str, to: Path) -> None:
    """Build wheel and source archive of a commit into a folder.

    Raises:
        subprocess.CalledProcessError: git or the build failed.
    """
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    asked = ["git", "log", "-1", "--format=%ct", commit]
    time = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        source = Path(folder)
        tag = f"v{_version(source)}"
        readme, project = source / "README.md", source / "pyproject.toml"
        readme.write_text(absolute_links(readme.read_text(encoding="utf-8"), url, tag), encoding="utf-8")
        with project.open("a", encoding="utf-8") as file:
            file.write(project_urls(url, tag))
        locked = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
        command = [sys.executable, "-m", "build", "--outdir", str(to.resolve())]
        subprocess.run(
            command, cwd=source, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": time, **locked}
        )


def list_components(to: Path) -> None:
    """Write the locked packages as a CycloneDX document.

    Raises:
        subprocess.CalledProcessError: the tool failed.
    """
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible"]
    subprocess.run([*command, "-o", str(to), str(ROOT / "constraints.txt")], check=True)


def _version(source: Path) -> str:
    found = re.search(
        r'^__version__ = "(.+)"$', (source / "fedkme/__init__.py").read_text("utf-8"), re.MULTILINE
    )
    assert found is not None, "the version stands in fedkme/__init__.py"
    return found[1]


def main() -> None:
    """Build what the arguments say."""
    parser = argparse.ArgumentParser(description="build what is published")
    parser.add_argument("url", help="address of the project, https://...")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    chosen = parser.parse_args()
    os.umask(0o022)  # the modes of files are a part of the wheel
    if not chosen.url.startswith("https://"):
        parser.error("the address begins with https://")
    chosen.to.mkdir(parents=True, exist_ok=True)
    build(chosen.url.rstrip("/"), chosen.commit, chosen.to)
    list_components(chosen.to / "sbom.json")


if __name__ == "__main__":
    main()
