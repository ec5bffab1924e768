"""Damaged and hostile files made from whole ones, the same for the same random numbers.

Checksums, lengths and compression are repaired after most changes: a reader that only ever sees a wrong checksum is
not tried.
"""

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Literal

Files = dict[str, bytes]  # by path, relative to their folder
REPAIRED = 0.85  # share of the changes that are made within the envelope
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
NUMBERS = (b"0", b"-1", b"1e308", b"99999999999", b"9" * 6_000, b"1e-400", b"0.1", b"2147483648")
ORDERS: tuple[Literal["little", "big"], ...] = ("little", "big")
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 10**6, 2**31, 2**63, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308, float("nan"),
    float("inf"), -float("inf"), "", "a", "\0", "../../x", "/etc/passwd", "\ud800", "x" * 5_000, [], {}, [[]], [None],
    [0] * 2_000, {"a": {"a": {}}}, ["\n"],
)  # fmt: skip
TOKENS = (
    b"[" * 20_000, b'{"a":' * 20_000, b"9" * 6_000, b"1e999", b"-1", b"NaN", b"Infinity", b"null", b"\0", b"\xff\xfe",
    b'"', b"\n", b"\t", b",", b"=", b"]", b"}", b"0x7fffffffffffffff", b"1_000_000_000", b"true", b"\xef\xbb\xbf",
)  # fmt: skip


def mutated(seeds: list[Files], random: Random) -> Files:
    """One of the seeds with one to four changes in one of its files."""
    files = dict(random.choice(seeds))
    name = random.choice(sorted(files))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        files[name] = _changed(name, files[name], random)
    return files


def _changed(name: str, content: bytes, random: Random) -> bytes:
    envelope = _ENVELOPES.get(Path(name).suffix)
    if envelope is not None and random.random() < REPAIRED:
        try:
            return envelope(name, content, random)
        except Exception:  # an earlier change broke the envelope; the bytes can still be changed
            pass
    return _bytes(content, random)


def _bytes(content: bytes, random: Random) -> bytes:
    """A change that knows nothing of the format: some bytes are replaced by others."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    start = random.randint(0, len(content))
    end = min(len(content), start + int(2 ** random.uniform(0, 10)))
    size, order = random.choice((1, 2, 4, 8)), random.choice(ORDERS)
    kind = random.randrange(8)
    if kind == 0:
        end, new = len(content), b""
    elif kind == 1:
        new = b""
    elif kind == 2:
        new = content[start:end] * random.randint(2, 20)
    elif kind == 3:
        end, new = start, random.choice(TOKENS)
    elif kind == 4:
        new = random.randbytes(end - start)
    elif kind == 5:
        end, new = start + size, (random.choice(INTERESTING) % 256**size).to_bytes(size, order)
    elif kind == 6 and numbers:
        (start, end), new = random.choice(numbers).span(), random.choice(NUMBERS)
    else:
        end, new = start + 1, bytes(byte ^ 1 << random.randrange(8) for byte in content[start : start + 1])
    return content[:start] + new + content[end:]


def _plain(value: Any, random: Random) -> Any:
    """JSON data with one value, at any depth, exchanged, removed or doubled."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        here = waiting.pop()
        inner = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        for key, held in inner:
            places.append((here, key))
            waiting.append(held)
    if not places:
        return random.choice(HOSTILE)
    holder, key = random.choice(places)
    kind = random.randrange(10)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder *= 2
    elif kind == 1:
        holder[str(random.choice(HOSTILE))] = holder[key]
    elif kind == 2:
        other, place = random.choice(places)
        holder[key] = json.loads(json.dumps(other[place]))
    elif kind == 3 and isinstance(holder[key], int | float):
        holder[key] = random.choice((-holder[key], holder[key] + 1, holder[key] * 1000, float(holder[key])))
    else:
        holder[key] = random.choice(HOSTILE)
    return value


def _json(content: bytes, random: Random) -> bytes:
    if random.random() < 0.3:
        return _bytes(content, random)
    return json.dumps(_plain(json.loads(content), random), separators=(",", ":")).encode()


def _journal(name: str, content: bytes, random: Random) -> bytes:
    """A line changed, moved or doubled; its checksum is right again."""
    lines = content.split(b"\n")[:-1]
    at = random.randrange(len(lines))
    kind = random.randrange(8)
    if kind == 0:
        lines.insert(random.randrange(len(lines) + 1), lines[at])
    elif kind == 1:
        del lines[at]
    else:
        head = lines[at].rpartition(b',"crc":"')[0] + b"}"
        body = _json(head, random)
        lines[at] = body[:-1] + b',"crc":"%08x"}' % zlib.crc32(body)
    return b"".join(line + b"\n" for line in lines)


def _gzip(name: str, content: bytes, random: Random) -> bytes:
    return gzip.compress(_changed(name.removesuffix(".gz"), gzip.decompress(content), random), mtime=0)


def _zip(name: str, content: bytes, random: Random) -> bytes:
    """An archive with one member changed, renamed or removed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    member = random.choice(sorted(members))
    kind, new = random.randrange(10), member
    inner = members.pop(member)
    if kind == 0:
        new = random.choice(("../../x.npy", "images.npy", "labels.npy", "classes.npy", "\n.npy", "train_images.npy"))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for other, held in members.items():
            archive.writestr(other, held)
        if kind != 1:
            archive.writestr(new, _bytes(inner, random))
    return target.getvalue()


def _safetensors(name: str, content: bytes, random: Random) -> bytes:
    """The header or the description in it changed; its length is right again."""
    length = struct.unpack_from("<Q", content)[0]
    head, tensors = json.loads(content[8 : 8 + length]), content[8 + length :]
    key = random.choice(sorted(head["__metadata__"]))
    if random.random() < 0.7:
        head["__metadata__"][key] = _json(head["__metadata__"][key].encode(), random).decode(errors="replace")
        text = json.dumps(head).encode()
    else:
        text = _json(json.dumps(head).encode(), random)
    return struct.pack("<Q", len(text)) + text + tensors


def _png(name: str, content: bytes, random: Random) -> bytes:
    """A chunk changed; its length and checksum are right again."""
    chunks, at = [], 8
    while at + 12 <= len(content):
        size = struct.unpack_from(">I", content, at)[0]
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    chosen = random.randrange(len(chunks))
    kind, data = chunks[chosen]
    if kind == b"IDAT" and random.random() < 0.5:
        data = zlib.compress(_bytes(zlib.decompress(data), random))
    else:
        data = _bytes(data, random)
    chunks[chosen] = (kind, data)
    return content[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _toml(name: str, content: bytes, random: Random) -> bytes:
    """A value after an equals sign exchanged; or any bytes."""
    found = list(re.finditer(rb"(?m)= *([^\n,}\]]+)", content))
    if not found or random.random() < 0.3:
        return _bytes(content, random)
    place = random.choice(found)
    value = random.choice(HOSTILE)
    written = _TOML_WORDS.get(str(value), json.dumps(value))
    return content[: place.start(1)] + written.encode(errors="surrogatepass") + content[place.end(1) :]


_TOML_WORDS = {"None": "1979-05-27", "nan": "nan", "inf": "inf", "-inf": "-inf"}
_ENVELOPES: dict[str, Callable[[str, bytes, Random], bytes]] = {
    ".jsonl": _journal,
    ".gz": _gzip,
    ".npz": _zip,
    ".safetensors": _safetensors,
    ".png": _png,
    ".toml": _toml,
}
