"""A party's certificate, as the other side will look at it."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from curator.settings import CuratorSettings
from fedkme.errors import IdentityError
from fedkme.party import PartySettings
from fedkme.pki.certificates import alternative_names, expiry, hosts_of, now, role_of
from fedkme.pki.identity import Identity, expiry_warning
from fedkme.pki.revocation import Revocation
from operate.doctor.findings import Finding, looked


def check_identity(settings: PartySettings, role: str, name: str) -> Iterator[Finding]:
    """Key, names, role, dates, chain, and the list of revoked ones."""
    if settings.identity is None:
        if settings.plaintext:
            yield Finding("ok", "certificate", "none is needed: plaintext, on loopback alone")
        else:
            lack = "there is neither 'identity' nor 'plaintext'"
            yield Finding("fail", "certificate", lack, "Name a bundle of `fedkme pki`.", 10)
        return
    path = settings.identity
    try:
        identity = Identity.load(path)
    except IdentityError as error:
        yield Finding("fail", "certificate", error.cause, error.remedy, error.code)
        return
    yield from looked("certificate", lambda: _of_party(identity, role, name))
    yield from looked("chain", lambda: _chain(identity))
    if isinstance(settings, CuratorSettings):
        if settings.revoked is None:
            line = (
                "no list of revoked certificates: whoever has one of the authority gets in until it expires"
            )
            yield Finding("warn", "revocation", line, "Set 'revoked' (docs/pki.md).")
        else:
            revoked = settings.revoked
            yield from looked(
                "revocation", lambda: _revocation(Revocation(revoked, identity.authority), identity)
            )


def _of_party(identity: Identity, role: str, name: str) -> Iterator[Finding]:
    leaf = identity.leaf
    if role != "curator" and name not in alternative_names(leaf):
        raise IdentityError(
            f"the certificate does not name {name!r}, which this party is called", "Issue one of that name."
        )
    given = role_of(leaf)
    if given is not None and given != role:
        raise IdentityError(
            f"the certificate is for the role {given}, and this is a configuration of the role {role}",
            f"Issue one with --role {role}.",
        )
    if role == "curator":
        hosts = hosts_of(leaf)
        if not hosts:
            raise IdentityError("the certificate names no host", "Issue one with --host.")
        yield Finding("ok", "certificate", f"for a curator at {', '.join(hosts)}")
    else:
        yield Finding("ok", "certificate", f"of {name}, {given or 'no role given'}")
    line = f"expires {expiry(leaf.not_valid_after_utc)}"
    due = expiry_warning(identity) is not None
    yield Finding("warn" if due else "ok", "expiry", line, "Run `fedkme pki renew`." if due else "")


def _chain(identity: Identity) -> str:
    """Follow the chain from the party's certificate to an authority it trusts itself, as peers' TLS does."""
    leaf, *between = x509.load_pem_x509_certificates(identity.certificate)
    authorities = x509.load_pem_x509_certificates(identity.authority)
    for signer in authorities:
        if signer.not_valid_after_utc < now():
            raise IdentityError("the authority's certificate has expired", "Make another authority.")
    issued = leaf
    for _ in range(len(between) + 1):
        for signer in (*between, *authorities):
            if _issued(issued, signer):
                if signer in authorities:
                    return f"signed by this party's authority {signer.subject.rfc4514_string()}"
                issued = signer
                break
        else:
            break
    raise IdentityError("the certificate is not signed by the authority beside it", "Issue both again.")


def _issued(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _revocation(revocation: Revocation, identity: Identity) -> Iterator[Finding]:
    warning = revocation.warning()
    revocation.check(identity.certificate)
    if warning is None:
        yield Finding("ok", "revocation", "the list is the authority's, and holds")
    else:
        yield Finding("warn", "revocation", warning)
