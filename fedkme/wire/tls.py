"""Mutual TLS: a party's name is its certificate's, never its address."""

from collections.abc import Callable
from typing import Any, cast

import grpc
from cryptography import x509

from fedkme.errors import IdentityError
from fedkme.pki.certificates import ROLE, Role, expiry, name_of, now
from fedkme.pki.identity import IdentityFile

Context = grpc.aio.ServicerContext[Any, Any]


def renewing_server_credentials(
    file: IdentityFile, tell: Callable[[str, str], None]
) -> grpc.ServerCredentials:
    """Credentials of a server that accepts only clients of the same authority, and may renew its identity.

    The file is checked for changes before each connection's handshake. Open connections are not touched.

    Args:
        file: identity of this server; no other object reads its changes.
        tell: called with `certificate_renewed` or `certificate_not_renewed`, and a line, in a thread of gRPC.
    """
    last_fault = ""

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal last_fault
        try:
            if not file.renewed():
                return None
        except IdentityError as error:
            if last_fault != str(error):  # report once, however many clients connect meanwhile
                last_fault = str(error)
                tell("certificate_not_renewed", last_fault)
            return None
        last_fault = ""
        tell("certificate_renewed", f"expires {expiry(file.identity.leaf.not_valid_after_utc)}")
        return file.identity.server_configuration()

    fetching = cast(Callable[[], grpc.ServerCertificateConfiguration], fetch)  # None means unchanged
    return grpc.dynamic_ssl_server_credentials(
        file.identity.server_configuration(), fetching, require_client_authentication=True
    )


def peer_names(context: Context) -> frozenset[str] | None:
    """Alternative names of the peer's certificate; None on a plaintext connection."""
    names = _alternatives(context)
    return None if names is None else frozenset(name for name in names if not name.startswith(ROLE))


def peer_certificate(context: Context) -> bytes | None:
    """The peer's certificate (PEM), for `Revocation.check`; None on a plaintext connection."""
    properties = context.auth_context()
    if properties.get("transport_security_type") != [b"ssl"]:
        return None
    return b"".join(properties.get("x509_pem_cert", ()))


def check_role(context: Context, role: Role) -> None:
    """Check a peer's role against its certificate.

    Certificates without a role come from simulations or from other authorities' software; for them the names
    in the settings decide. No party can remove the role from its certificate.

    Raises:
        IdentityError: the certificate is for another role.
    """
    names = _alternatives(context) or frozenset()
    roles = sorted(name.removeprefix(ROLE) for name in names if name.startswith(ROLE))
    if roles and roles != [role]:
        cause = f"a party acts as {role} and its certificate is for the role {' and '.join(roles)}"
        raise IdentityError(cause, f"Use a certificate of the role {role} (fedkme pki issue --role {role}).")


def check_peer(context: Context, name: str, role: Role | None = None) -> None:
    """Check a peer's name and, if given, its role against its certificate.

    Raises:
        IdentityError: the certificate has another name or role.
    """
    names = peer_names(context)
    if names is not None and name not in names:
        cause = f"a party says it is {name[:64]!r} and its certificate does not"
        raise IdentityError(cause, "Use the certificate of that name.")
    if role is not None:
        check_role(context, role)
    _check_resumed(context)


def _check_resumed(context: Context) -> None:
    """Refuse a resumed TLS session whose certificate has expired since.

    A resumed session's handshake does not check the certificate again while the server's tickets hold: hours.
    """
    if context.auth_context().get("ssl_session_reused") != [b"true"]:
        return
    certificate = x509.load_pem_x509_certificate(peer_certificate(context) or b"")
    if certificate.not_valid_after_utc < now():
        cause = f"the certificate of {name_of(certificate.subject)!r} has expired"
        raise IdentityError(cause, "Renew it (fedkme pki renew).")


def _alternatives(context: Context) -> frozenset[str] | None:
    properties = context.auth_context()
    if properties.get("transport_security_type") != [b"ssl"]:
        return None
    return frozenset(name.decode() for name in properties.get("x509_subject_alternative_name", ()))
