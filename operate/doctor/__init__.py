"""`fedkme doctor`: what would keep a party from working, found before it starts, a line each.

It changes nothing, opens no store for writing, and says nothing to a peer but what a call of the health
service says.
"""
