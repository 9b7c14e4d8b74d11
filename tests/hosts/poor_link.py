"""A poor link between two network namespaces, for kernels without `tc netem`: packets come late, or never.

Two TAP devices, and this process as the cable between them. It works on packets, so that TCP sees real loss;
what is sent is in the order in which it came. Usage, inside the first namespace:
`python poor_link.py HERE THERE DELAY_MS LOSS`; it says `ready` when both devices are there.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME = 65536


def tap(name: str) -> int:
    """A new TAP device of this namespace; it lives as long as its file."""
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return handle


def carry(ends: tuple[int, int], delay_s: float, loss: float) -> None:
    """Pass frames on, for good."""
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    chance = random.Random(4)
    late: deque[tuple[float, int, bytes]] = deque()
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        ready, _, _ = select.select(ends, [], [], wait)
        now = time.monotonic()
        for end in ready:
            frame = os.read(end, FRAME)
            if chance.random() >= loss:
                late.append((now + delay_s, other[end], frame))
        while late and late[0][0] <= now:
            _, end, frame = late.popleft()
            try:
                os.write(end, frame)
            except OSError:  # the device is down, or its queue is full: the frame is lost
                continue


def main(here: str, there: str, delay_ms: str, loss: str) -> None:
    ends = (tap(here), tap(there))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    carry(ends, float(delay_ms) / 1000, float(loss))


if __name__ == "__main__":
    main(*sys.argv[1:])
