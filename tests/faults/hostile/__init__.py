"""Requests made to break a receiver, over raw sockets, and what must hold all the same: `python -m tests.faults.hostile`."""
