"""Identity: who a party is, who says so, until when, and who no longer is.

An authority signs certificates of parties. A certificate carries the party's name, its role and, for a
curator alone, the hosts under which it is called. The role is in the certificate twice: as the purpose that
TLS itself enforces (only a curator's certificate is fit for a server, only an owner's or a consumer's for a
client), and as a name `fedkme:role:...` that tells owners from consumers.
"""
