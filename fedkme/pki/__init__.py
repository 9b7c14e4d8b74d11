"""Identities of parties: certificates, the authority that issues them, their expiry and revocation.

An authority signs certificates of parties. A certificate carries the party's name, its role and, for a
curator alone, the hosts at which clients reach it. The role is in the certificate twice: as the purpose that
TLS itself enforces (only a curator's certificate is fit for a server, only an owner's or a consumer's for a
client), and as a name `fedkme:role:...`, by which owners and consumers are told apart.
"""
