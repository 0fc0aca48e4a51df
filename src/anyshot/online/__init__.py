"""Online incremental learning: the stream, the buffer, algorithm 1 and its ledger."""

from anyshot.online.buffer import Buffer
from anyshot.online.loop import OnlineLoop, OnlineState, Record
from anyshot.online.protocol import Protocol
from anyshot.online.stream import Stream, make_stream

__all__ = ["Buffer", "OnlineLoop", "OnlineState", "Protocol", "Record", "Stream", "make_stream"]
