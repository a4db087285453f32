"""What travels: the values every part of hooklake agrees on. Imports none of our other packages."""

from schemas.dead_letter import DeadLetter
from schemas.event import AuthContext, Priority, StreamEvent
from schemas.receipt import Receipt

__all__ = ["AuthContext", "DeadLetter", "Priority", "Receipt", "StreamEvent"]
