"""Decision 020: "loopback by default, a token and the party's TLS otherwise"; a token opens its own view."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fedkme.errors import ConfigError
from fedkme.watch.access import Access, PageAddress, read_secret, viewer_of
from fedkme.watch.state import Viewer

NORTH = Viewer("owner", "north")
GUARDED = Access(b"0123456789abcdef0123456789abcdef")


def test_on_this_machine_any_view_may_be_chosen() -> None:
    assert Access().viewer("127.0.0.1:8080", "", "") == Viewer()
    assert Access().viewer("localhost:8080", "", "owner:north") == NORTH
    assert Access().viewer("[::1]:8080", "", "") == Viewer()


@pytest.mark.parametrize("host", ["evil.example:8080", "evil.example", "", "127.0.0.1.evil.example:80"])
def test_a_request_that_names_another_host_is_refused(host: str) -> None:
    # a web site may point its own name at 127.0.0.1, and its visitor's browser then asks for it
    assert Access().viewer(host, "", "") is None


def test_a_token_opens_its_own_view_and_that_of_the_curator_all() -> None:
    north, curator = GUARDED.token(NORTH), GUARDED.token(Viewer())
    assert GUARDED.viewer("any.example", north, "") == NORTH
    assert GUARDED.viewer("any.example", north, "owner:north") == NORTH
    assert GUARDED.viewer("any.example", north, "owner:south") is None
    assert GUARDED.viewer("any.example", north, "curator") is None
    assert GUARDED.viewer("any.example", curator, "owner:north") == NORTH
    assert GUARDED.viewer("any.example", curator, "nobody") is None


def test_a_forged_token_is_refused() -> None:
    forged = GUARDED.token(NORTH).replace("north", "south")
    other = Access(b"another secret of thirty-two letters").token(NORTH)
    for token in ("", "owner:north", forged, other, "curator:", "ö:ä:ü"):
        assert GUARDED.viewer("127.0.0.1:80", token, "") is None


def test_words_that_name_no_view_are_refused() -> None:
    assert [viewer_of(words) for words in ("", "owner", "owner:", "curator:x", "root:x")] == [None] * 5


def test_a_secret_is_made_once_and_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert read_secret(path) == read_secret(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short\n")
    with pytest.raises(ConfigError, match="fewer than 32"):
        read_secret(path)


@pytest.mark.parametrize(
    ("place", "cause"),
    [
        (PageAddress("8080"), "not host:port"),
        (PageAddress("0.0.0.0:8080"), "anybody who reaches it"),
        (PageAddress("0.0.0.0:8080", identity=Path("tls")), "anybody who reaches it"),
        (PageAddress("0.0.0.0:8080", secret=Path("secret")), "anybody who reaches it"),
    ],
)
def test_a_page_off_loopback_needs_a_certificate_and_a_secret(place: PageAddress, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        place.check()


def test_a_link_has_a_token_where_viewers_need_one(tmp_path: Path) -> None:
    local = PageAddress("127.0.0.1:8080")
    assert local.link("curator") == "http://127.0.0.1:8080/"
    assert local.link("owner:north") == "http://127.0.0.1:8080/?as=owner:north"
    guarded = PageAddress("page.example:8080", tmp_path, tmp_path / "secret")
    link = guarded.link("owner:north")
    assert link.startswith("https://page.example:8080/?token=owner:north:")
    assert guarded.access().viewer("", link.partition("token=")[2], "") == NORTH
