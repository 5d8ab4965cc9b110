"""Compressed values: what comes out is what went in, and everything else is refused."""

from __future__ import annotations

import gzip
import random
import zlib

import pyarrow as pa
import pytest
from tests.rows.formats import frame

from rivermouth import names
from rivermouth.decoding.wrapped import unwrap
from rivermouth.decoding.wrapped.unwrap_in_python import unwrap_of
from rivermouth.schemas.inference import Corrupt
from rivermouth.spec import Flow

MAX_BYTES = 100_000
SEED = random.Random(7)
TEXTS = [b"", b"{}", b'{"id": 1}' * 1000, SEED.randbytes(5_000), b"x" * MAX_BYTES]


def zstd(value):
    return pa.Codec("zstd").compress(value, asbytes=True)


def with_header(value):
    """A member with every part that its header may have."""
    raw = zlib.compressobj(wbits=-15)
    body = raw.compress(value) + raw.flush()
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x02\x00ab" + b"name\x00" + b"comment\x00"
    header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    return header + body + zlib.crc32(value).to_bytes(4, "little") + len(value).to_bytes(4, "little")


def streamed(value):
    """A frame of one raw block that tells no length, and the window of 8 MiB that streams may have."""
    block = (len(value) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x00\x68" + block + value


GOOD = {
    "gzip": [(gzip.compress(text), text) for text in TEXTS]
    + [(gzip.compress(b"one ") + gzip.compress(b"two"), b"one two"), (with_header(b"{}"), b"{}")],
    "zstd": [(zstd(text), text) for text in TEXTS]
    + [(zstd(b"one ") + zstd(b"two"), b"one two"), (streamed(b"{}"), b"{}")],
}
# A letter of a name that is not what the header's own sum says, and a flag that RFC 1952 reserves.
RESERVED = b"\x1f\x8b\x08\x20" + gzip.compress(b"{}")[4:]
DAMAGED = {"gzip": [with_header(b"{}").replace(b"name", b"nbme"), RESERVED], "zstd": []}


def broken(whole):
    """Values that are none, from one that is: no cut and no change may go by unseen."""
    cuts = [whole[:1], whole[:-1], whole[: len(whole) // 2]]
    # Behind a whole one: a byte, parts of another one, and bytes that are none, few and many.
    more = [whole + rest for rest in (b"x", whole[:1], whole[:5], whole[:-1], bytes(9), bytes(40))]
    return [b"", b"{}", *cuts, *more, b"x" + whole]


def in_python(flow, value):
    try:
        return unwrap_of(flow)(value), None
    except Corrupt as refused:
        return None, str(refused)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_what_comes_out_is_what_went_in(spark, kind):
    pack = {"gzip": gzip.compress, "zstd": zstd}[kind]
    bad = [
        *broken(pack(b'{"id": 1, "name": "somebody"}')),
        *DAMAGED[kind],
        {"gzip": zstd, "zstd": gzip.compress}[kind](b"{}"),
    ]
    large = [pack(b"x" * (MAX_BYTES + 1)), pack(bytes(50_000_000))]
    values = [value for value, _ in GOOD[kind]] + bad + large + [None]
    flow = Flow(
        name="orders",
        topics=("orders",),
        format="raw",
        table="bronze.orders",
        compression={"type": kind, "max_bytes": MAX_BYTES},
    )
    rows = unwrap.unwrapped(frame(spark, values), flow)
    found = rows.orderBy(names.OFFSET).select(names.VALUE, "__wrapping.reason", "__wrapping.message").collect()
    told = [(None if row[0] is None else bytes(row[0]), row[1], row[2]) for row in found]
    assert [(text, reason) for text, reason, _ in told[:-1]] == [in_python(flow, value) for value in values[:-1]]
    invalid = f"the value is not {kind} from its first byte to its last"
    assert told[: len(GOOD[kind])] == [(text, None, None) for _, text in GOOD[kind]]
    assert told[len(GOOD[kind]) : -3] == [(None, "INVALID_COMPRESSION", invalid)] * len(bad)
    assert told[-3:-1] == [(None, "TOO_LARGE", f"the value expands to more than {MAX_BYTES} bytes")] * 2
    assert told[-1] == (None, None, None)
