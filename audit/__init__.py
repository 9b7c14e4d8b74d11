"""Instruments of an auditor: attacks on mechanisms, replay of runs, schedules of faults, contract tests."""
