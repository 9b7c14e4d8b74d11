"""A process to be killed: writes into a store and says what was committed.

python writer.py SPEC commit    commits without end, and prints each number after its commit
python writer.py SPEC archive   likewise, and archives all but the last line after every third
python writer.py SPEC hold      commits once, says so in the middle of the next transaction, waits
"""

from __future__ import annotations

import sys

from fedkme.store.base import Store
from fedkme.store.opening import open_store

BODY = bytes(range(256)) * 16


def write(store: Store, number: int) -> None:
    """One round: what stands of it must stand whole."""
    store.append("run", "draw", BODY)
    store.extend_ledger([f"line {number}", f"line {number} again"])
    store.append("run", "answer", number.to_bytes(8))
    store.put("rounds", number.to_bytes(8))


def main(spec: str, way: str) -> None:
    """Write until killed."""
    store = open_store(spec, "curator")
    if store.run("run") is None:
        store.open_run("run", "peer", b"")
    number = len(store.ledger()) // 2
    while True:
        number += 1
        with store.transaction():
            write(store, number)
            if way == "hold" and number % 2 == 0:
                print("inside", flush=True)
                sys.stdin.read()
        print(number, flush=True)
        if way == "archive" and number % 3 == 0:
            last = 2 * number - 1
            store.archive(store.pack(last, "", 0.0, ()), {}, {"archived": last.to_bytes(8)})


if __name__ == "__main__":
    main(*sys.argv[1:])
