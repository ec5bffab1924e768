"""Where the record of each input stands in a run file: all that a writer keeps of the records it has written.

Eight bytes an input, whatever the size of its record.
"""

import os
from array import array
from collections.abc import Iterator, Mapping

from sigmax.records.lines import Record, decode

_BLOCK = 256  # neighbouring inputs that share an array
_AT_ONCE = 1 << 16  # bytes of a read; nearly every record is shorter


class Places:
    """Byte offsets of records by input, in the order of the inputs."""

    def __init__(self) -> None:
        self._blocks: dict[int, array[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and self.get(index) is not None

    def __iter__(self) -> Iterator[int]:
        for number in sorted(self._blocks):
            yield from (number * _BLOCK + i for i, offset in enumerate(self._blocks[number]) if offset >= 0)

    def add(self, index: int, offset: int) -> None:
        """Note the place of an input that has none yet."""
        block = self._blocks.get(index // _BLOCK)
        if block is None:
            block = self._blocks[index // _BLOCK] = array("q", [-1]) * _BLOCK
        block[index % _BLOCK] = offset
        self._count += 1

    def get(self, index: int) -> int | None:
        """The place of an input, if it has one."""
        block = self._blocks.get(index // _BLOCK)
        offset = -1 if block is None else block[index % _BLOCK]
        return None if offset < 0 else offset


class RecordsInFile(Mapping[int, Record]):
    """The records of an open run file by input, each read when it is asked for."""

    def __init__(self, fd: int, places: Places) -> None:
        self._fd, self._places = fd, places

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, index: object) -> bool:
        return index in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __getitem__(self, index: int) -> Record:
        offset = self._places.get(index)
        if offset is None:
            raise KeyError(index)
        os.lseek(self._fd, offset, os.SEEK_SET)
        line = b""
        while b"\n" not in line and (part := os.read(self._fd, _AT_ONCE)):
            line += part
        return Record.from_json(decode(line.partition(b"\n")[0]))
