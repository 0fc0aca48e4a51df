"""Python reads this first where it is on PYTHONPATH. FAULTY_NODE=KIND:TEXT is for paths that have TEXT in them.

full: what is written to them fails as on a full disk. hidden: they are not there to be read.
"""

import errno
import os
import pathlib

KIND, _, TEXT = os.environ.get("FAULTY_NODE", "").partition(":")


def _is_faulty(path: object) -> bool:
    return bool(TEXT) and TEXT in str(path)


if KIND == "full":
    _write = os.write

    def write(handle: int, data: bytes) -> int:
        if _is_faulty(pathlib.Path(f"/proc/self/fd/{handle}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return _write(handle, data)

    os.write = write  # type: ignore[assignment]
elif KIND == "hidden":
    _read_text = pathlib.Path.read_text

    def read_text(self: pathlib.Path, *how: object, **more: object) -> str:
        if _is_faulty(self):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return _read_text(self, *how, **more)  # type: ignore[arg-type]

    pathlib.Path.read_text = read_text  # type: ignore[method-assign,assignment]
