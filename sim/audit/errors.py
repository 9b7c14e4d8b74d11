"""How an audit ends when it does not pass."""

from fedkme.errors import FedkmeError


class AuditError(FedkmeError):
    """A mechanism that claims to be sound was broken, or an attack that must succeed did not."""

    code = 51
    title = "audit"
