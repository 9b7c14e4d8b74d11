"""Publication: the README as a package index shows it, metadata, the licence."""

from __future__ import annotations

import re
import subprocess
import tomllib

import yaml

from fedkme import __version__
from tests.places import ROOT
from tools.dist import absolute_links, project_urls

README = (ROOT / "README.md").read_text(encoding="utf-8")
URL, TAG = "https://example.org/fedkme", f"v{__version__}"


def test_every_link_of_the_readme_is_absolute_where_it_is_published() -> None:
    published = absolute_links(README, URL, TAG)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", published)
    assert len(links) > 10
    for picture, target in links:
        assert target.startswith("https://"), target
        if target.startswith(URL):
            kind, tag, path = target.removeprefix(f"{URL}/").split("/", 2)
            assert (kind, tag) == ("raw" if picture else "blob", TAG)
            assert (ROOT / path.partition("#")[0]).exists(), path
    assert f"![a picture]({URL}/raw/{TAG}/" in absolute_links("![a picture](docs/a.svg)", URL, TAG)


def test_metadata_stand_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "fedkme.__version__"}
    assert tomllib.loads(project_urls(URL, TAG))["project"]["urls"]["Homepage"] == URL
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(__version__)} - 20\d\d-\d\d-\d\d$", changelog, re.MULTILINE)
    for name in ("LICENSE", "SECURITY.md", "CONTRIBUTING.md"):
        assert (ROOT / name).is_file()
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == __version__
    assert f"## {__version__} - {cited['date-released']}" in changelog
    # The README said "beta, 0.3.0" where `fedkme --version` said 0.2.0.
    (said,) = re.findall(r"^Status: beta; (\S+) is \[in the making\]", README, re.MULTILINE)
    assert f"## {said} - unreleased" in changelog


def test_every_package_says_that_it_is_typed() -> None:
    assert all(
        (ROOT / name / "py.typed").is_file()
        for name in ("fedkme", "curator", "owner", "consumer", "sim", "operate")
    )


def test_no_commit_names_a_registry() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.txt", "*.toml", "Makefile"], cwd=ROOT, capture_output=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "index-url" not in text, name
        assert "find-links" not in text, name
