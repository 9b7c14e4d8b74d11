"""`fedkme audit attack`: tries to break every mechanism's claim, cheapest way first.

Four layers, each a module, each giving `Finding`s:

1. `sensitivity`: adversarial neighbours against the declared bound, with the noise scripted. Exact: what the
   mechanism computes is compared with the units of the noise that it asks for.
2. `law`: draws and outcomes against the declared law and scale.
3. `black_box`: tell two neighbouring worlds apart by a statistic fixed in advance; bound epsilon from below.
   `runs` has games that are whole runs, `wire` plays them in one process and over gRPC streams.
4. `recount`: epsilon from the disclosures that happened, against the figure that was claimed.

`subjects` lists what is audited; every check takes the mechanism as an argument, so tests plant faults in it.
A lower bound certifies nothing: a sound mechanism passes with "no violation found at this power".
"""
