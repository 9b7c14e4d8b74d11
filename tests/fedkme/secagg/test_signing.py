"""Bindings of signing keys to the certificates of `fedkme pki`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fedkme.errors import IdentityError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.secagg.signing import KeyBinding, bind, verify_all, verify_binding
from tests.fedkme.secagg.runs import signing_key

RUN = "run-1 round 3"
KEY = signing_key("a").public_key()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def binding(authority: Authority) -> KeyBinding:
    return bind(authority.issue("a", role=Role.OWNER), KEY, RUN)


def test_a_binding_names_the_owner_of_its_key(authority: Authority, binding: KeyBinding) -> None:
    seen: list[bytes] = []
    name, key = verify_binding(binding, authority.pem, RUN, check=seen.append)
    assert name == "a"
    assert key.public_bytes_raw() == KEY.public_bytes_raw()
    assert seen == [binding.chain]


def test_a_simulations_certificate_without_a_role_is_enough(authority: Authority) -> None:
    assert verify_binding(bind(authority.issue("b"), KEY, RUN), authority.pem, RUN)[0] == "b"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", signing_key("b").public_key().public_bytes_raw()),
        ("key", b"short"),
        ("signature", b""),
        ("signature", bytes(72)),
        ("chain", b""),
        ("chain", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ("chain", bytes(2**17)),
        ("chain", "text"),
    ],
)
def test_a_binding_with_another_part_is_refused(
    authority: Authority, binding: KeyBinding, field: str, value: Any
) -> None:
    with pytest.raises(IdentityError):
        verify_binding(dataclasses.replace(binding, **{field: value}), authority.pem, RUN)


def test_a_binding_holds_for_one_run_one_authority_and_an_owner(
    authority: Authority, binding: KeyBinding
) -> None:
    with pytest.raises(IdentityError, match="did not sign for this run"):
        verify_binding(binding, authority.pem, "run-2")
    with pytest.raises(IdentityError, match="not this party's authority's"):
        verify_binding(binding, Authority().pem, RUN)
    another = bind(authority.issue("c", role=Role.OWNER), KEY, RUN)
    with pytest.raises(IdentityError, match="did not sign for this run"):
        verify_binding(dataclasses.replace(binding, chain=another.chain), authority.pem, RUN)
    with pytest.raises(IdentityError, match="which has another role"):
        verify_binding(bind(authority.issue("d", role=Role.CONSUMER), KEY, RUN), authority.pem, RUN)


def test_a_revoked_certificate_is_refused(authority: Authority, binding: KeyBinding) -> None:
    def refuse(certificate: bytes) -> None:
        raise IdentityError("it was revoked", "Ask for another one.")

    with pytest.raises(IdentityError, match="revoked"):
        verify_binding(binding, authority.pem, RUN, check=refuse)


def test_a_party_has_one_key_in_an_aggregation(authority: Authority, binding: KeyBinding) -> None:
    b = bind(authority.issue("b", role=Role.OWNER), signing_key("b").public_key(), RUN)
    assert sorted(verify_all([binding, b], authority.pem, RUN)) == ["a", "b"]
    with pytest.raises(IdentityError, match="two signing keys"):
        verify_all([binding, b, b], authority.pem, RUN)
