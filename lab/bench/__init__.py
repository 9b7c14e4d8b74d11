"""Benchmarks behind the project's claims about speed and memory.

Every result that matters is a ratio of two things measured in turn in the same run: rounds against a bare
echo of their messages, a bid against one matrix-vector product, a launch against interpreters that import
and end, an owner's memory against its rows and features. Times alone say more about the machine than about
the code.
"""
