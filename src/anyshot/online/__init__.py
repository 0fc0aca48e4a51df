"""Online incremental learning: the stream, the buffer, algorithm 1 and its ledger."""

from typing import TYPE_CHECKING

from anyshot.lazily import lazily
from anyshot.online.ledger import Ledger
from anyshot.online.protocol import Protocol

if TYPE_CHECKING:
    from anyshot.online.buffer import Buffer
    from anyshot.online.loop import OnlineLoop, OnlineState, Record
    from anyshot.online.stream import Stream, make_stream

__all__ = ["Buffer", "Ledger", "OnlineLoop", "OnlineState", "Protocol", "Record", "Stream", "make_stream"]

__getattr__ = lazily(
    __name__,
    {"buffer": ("Buffer",), "loop": ("OnlineLoop", "OnlineState", "Record"), "stream": ("Stream", "make_stream")},
)
