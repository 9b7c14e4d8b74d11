"""Benchmarks behind the project's claims about speed and memory.

Every important result is a ratio of two measurements in turn in the same run: rounds against a bare echo of
the same messages, a bid against one matrix-vector product, a launch against interpreters that only import, an
owner's memory against its rows and features. Times alone say more about the machine than about the code.
"""
