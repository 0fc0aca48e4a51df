"""Online learning (algorithm 1): the stream, the buffer, and the loop."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr
from anyshot.online.protocol import OnlineProtocol

if TYPE_CHECKING:
    from anyshot.online.buffer import Buffer
    from anyshot.online.loop import OnlineLoop, OnlineState, Record
    from anyshot.online.stream import Stream, make_stream

__all__ = ["Buffer", "OnlineLoop", "OnlineProtocol", "OnlineState", "Record", "Stream", "make_stream"]

__getattr__ = lazy_getattr(
    __name__,
    {"buffer": ("Buffer",), "loop": ("OnlineLoop", "OnlineState", "Record"), "stream": ("Stream", "make_stream")},
)


def __dir__() -> list[str]:
    return sorted(__all__)
