"""Files are known by their content, however they are packed; damage never passes."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import DataError, InputError
from anyshot.tasks.content import content_sha256
from anyshot.tasks.store import fetch
from tests.support.mirrors import BODY, Server, describe, left, put

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.medium]


def hashed(content: bytes, name: str, inside: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return content_sha256(put(Path(folder, name), content), inside)


def zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name, (1980 + len(content) % 100, 1, 1, 0, 0, 0)), content, method)
    return buffer.getvalue()


@given(st.binary(max_size=2000), st.integers(0, 9))
def test_gzip_is_known_by_its_content(content: bytes, level: int) -> None:
    sha = hashlib.sha256(content).hexdigest()
    packed = gzip.compress(content, level, mtime=level)
    assert hashed(packed, "a.gz", "gzip") == hashed(content, "a", "gzip") == hashed(content, "a.gz", "file") == sha
    half = len(content) // 2
    assert hashed(gzip.compress(content[:half]) + gzip.compress(content[half:]), "a.gz", "gzip") == sha


NAMES = st.text("ab/.é1", min_size=1, max_size=6).filter(lambda name: not name.endswith("/"))
MEMBERS = st.dictionaries(NAMES, st.binary(max_size=50), min_size=1, max_size=5)


@given(MEMBERS, st.randoms(use_true_random=False), st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
def test_zip_is_known_by_its_members(members: dict[str, bytes], order: random.Random, method: int) -> None:
    packed = list(members.items())
    sha = hashed(zipped(packed), "a.zip", "zip")
    again = [*packed, ("a folder/", b"")]
    order.shuffle(again)
    assert hashed(zipped(again, method), "a.zip", "zip") == sha
    name, content = packed[0]
    changed = (name, content[:-1] + bytes([content[-1] ^ 1]) if content else b"0")
    for other in ([changed, *packed[1:]], [(name + "c", content), *packed[1:]], [*packed, ("c", b"")], packed[1:]):
        assert hashed(zipped(other), "a.zip", "zip") != sha


def test_zip_knows_where_a_name_ends_and_content_begins() -> None:
    assert hashed(zipped([("a", b"bc")]), "a.zip", "zip") != hashed(zipped([("ab", b"c")]), "a.zip", "zip")
    assert hashed(zipped([("a", b""), ("b", b"")]), "a.zip", "zip") != hashed(zipped([("a", b"b")]), "a.zip", "zip")


def test_zip_made_on_a_mac_is_the_same() -> None:
    plain = [("a/1.png", b"one"), ("a/2.png", b"two")]
    added = [("__MACOSX/a/._1.png", b"mac"), ("a/.DS_Store", b"finder")]
    assert hashed(zipped(plain + added), "a.zip", "zip") == hashed(zipped(plain), "a.zip", "zip")


@given(st.data(), st.sampled_from(["gzip", "zip"]))
def test_damaged_archives_never_pass_and_raise_nothing_else(data: st.DataObject, inside: str) -> None:
    packed = bytearray(gzip.compress(BODY[:200]) if inside == "gzip" else zipped([("a", BODY[:200]), ("b", b"1" * 99)]))
    sha = hashed(bytes(packed), "a.gz", inside)
    if data.draw(st.booleans()):
        del packed[data.draw(st.integers(0, len(packed) - 1)) :]
        content_matters = True
    else:
        position = data.draw(st.integers(0, len(packed) - 1))
        packed[position] ^= data.draw(st.integers(1, 255))
        content_matters = False  # a date may change without harm
    try:
        same = hashed(bytes(packed), "a.gz", inside) == sha
    except DataError:
        return
    assert not (same and content_matters)


@pytest.mark.parametrize(
    ("inside", "content"),
    [
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(BODY)[:-9]),
        ("gzip", gzip.compress(BODY)[:100] + bytes(500)),
        ("zip", b"not zip"),
        ("zip", b""),
        ("zip", zipped([("a", BODY)])[:-9]),
        ("zip", zipped([("a", BODY)], zipfile.ZIP_STORED).replace(BODY, BODY[::-1])),
    ],
)
def test_damaged_archives(server: Server, data: Path, cache: Path, inside: str, content: bytes) -> None:
    file = describe(name="data.gz", inside=inside, sha256="0" * 64)
    mine = put(data / "data.gz", content)
    with pytest.raises(DataError, match="damaged") as caught:
        content_sha256(mine, inside)
    assert caught.value.__cause__ is not None
    with pytest.raises(DataError, match=f"{mine} is not the data.gz of set"):
        fetch(file)
    mine.unlink()
    put(cache / "files/set/data.gz", content)
    with pytest.raises(DataError, match="is missing"):
        fetch(file)
    assert left(cache) == []


def test_an_uncompressed_file_under_another_name_will_do(data: Path) -> None:
    file = describe(name="images.gz", inside="gzip", also=("raw/images",))
    place = put(data / "raw/images", BODY)
    assert fetch(file) == place


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"cannot read {tmp_path}"):
        content_sha256(tmp_path, "file")
    with pytest.raises(InputError, match='"file", "gzip" or "zip", got \'tar\''):
        content_sha256(tmp_path, "tar")
