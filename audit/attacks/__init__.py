"""`fedkme audit attack`: tries to break every mechanism's claim, the cheapest attack first.

Four layers, each a module whose checks return `CheckResult`s:

1. `sensitivity`: adversarial neighbours against the declared bound, with scripted noise. Exact: a mechanism's
   change is measured in units of the noise that the mechanism asks for.
2. `law`: draws and outcomes against the declared law and scale.
3. `black_box`: tell two neighbouring worlds apart by a statistic fixed in advance; bound epsilon from below.
   `runs` has games that are whole runs, `wire` plays these games in one process and over gRPC streams.
4. `recount`: epsilon from a run's actual disclosures, against the claimed figure.

`subjects` lists the audited mechanisms. Every check takes its mechanism as an argument, so that tests can
plant faults. A lower bound certifies nothing: a sound mechanism passes with "no violation found at this
power".
"""
