"""A reader of `.mmt` written from docs/trace-format.md alone: slow, obvious, and not ours to
optimise.

It shares nothing with the engine, so that the document and the engine check each other.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from xxhash import xxh3_64_intdigest as checksum

LOAD, STORE, MODIFY = range(3)
ADDRESS_MASK = 2**64 - 1


class Stream:
    """Bytes that are read from the front."""

    def __init__(self, content: bytes):
        self.content = content
        self.position = 0

    def take(self, count: int) -> bytes:
        taken = self.content[self.position : self.position + count]
        assert len(taken) == count
        self.position += count
        return taken

    def numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self) -> int:
        value = self.varint()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def is_empty(self) -> bool:
        return self.position == len(self.content)


@dataclass
class Block:
    """Instructions that are executed from the first to the last, and their accesses."""

    address: int
    sizes: bytes
    first_access: int
    """Number of its first access among those of all blocks."""
    accesses: list[tuple[int, int, int]] = field(default_factory=list)
    """Instruction, kind, width in bytes."""


@dataclass
class Event:
    """Kind as in the document, and its fields."""

    kind: int
    fields: tuple[int | str, ...]


class Trace:
    """A complete trace."""

    def __init__(self, path: Path):
        self.content = path.read_bytes()
        head = Stream(self.content)
        assert head.take(8) == b"\x89MMT\r\n\x1a\n"
        version, length = head.numbers("II")
        assert version == 3
        self.metadata = json.loads(head.take(length))
        sealed = self.content[: head.position]
        assert head.numbers("Q") == (checksum(sealed),)

        footer = Stream(self.content[-32:])
        offset, length = footer.numbers("QQ")
        assert footer.numbers("Q") == (checksum(self.content[-32:-16]),)
        assert footer.take(8) == b"MMT-END\n"
        sealed = self.content[offset : offset + length - 8]
        index = Stream(self.content[offset : offset + length])
        assert index.take(4) == b"indx"
        chunks, conclusion = index.numbers("II")
        self.conclusion = json.loads(index.take(conclusion))
        self.chunks = [index.numbers("QQ") for _ in range(chunks)]
        assert index.numbers("Q") == (checksum(sealed),)
        self.command = self.conclusion.get("command", self.metadata["command"])
        self.blocks: list[Block] = []

    def items(self) -> Iterator[Event | tuple[Block, list[int]]]:
        """What happened, in its order: events, and executed blocks with the addresses they used."""
        block_end = 0
        for number, (offset, instructions) in enumerate(self.chunks):
            chunk = Stream(self.content[offset:])
            assert chunk.take(4) == b"chnk"
            head = chunk.numbers("IIIQII")
            (own_number, executed, address_count, own_instructions, defined, event_count) = head
            assert (own_number, own_instructions) == (number, instructions)
            lengths = [chunk.numbers("II") for _ in range(8)]
            body_checksum, head_checksum = chunk.numbers("QQ")
            assert head_checksum == checksum(self.content[offset : offset + 104])
            body = chunk.take(sum(stored for _, stored in lengths))
            assert body_checksum == checksum(body)
            zstd, streams, position = pa.Codec("zstd"), [], 0
            for length, stored in lengths:
                part = body[position : position + stored]
                position += stored
                streams.append(Stream(zstd.decompress(part, length, asbytes=True)))
            definitions, events, bases, tokens, escapes, address_tokens, payload, crossings = (
                streams
            )

            block_end = self._define(definitions, defined, block_end)
            pending = self._events(events, event_count)
            address_of = self._address_decoder(bases.content, address_tokens.content, payload)
            crossing, address_place = self._next_crossing(crossings, 0), 0
            for place, block in enumerate(self._executed(executed, tokens.content, escapes)):
                while pending and pending[0][0] == place:
                    yield pending.pop(0)[1]
                addresses = [address_of(access) for access in self._accesses(block)]
                for (_, _, width), address in zip(block.accesses, addresses, strict=True):
                    crosses_here = width > 0 and address // 16 != (address + width - 1) // 16
                    assert crosses_here == (address_place == crossing)
                    address_place += 1
                    if crosses_here:
                        crossing = self._next_crossing(crossings, address_place)
                yield block, addresses
            for _, event in pending:
                yield event
            assert address_place == address_count and payload.is_empty() and escapes.is_empty()
            assert crossing is None

    @staticmethod
    def _next_crossing(stream: Stream, place: int) -> int | None:
        """Place among the chunk's addresses of the first crossing from `place` on."""
        return None if stream.is_empty() else place + stream.varint()

    def _define(self, stream: Stream, count: int, block_end: int) -> int:
        accesses = sum(len(block.accesses) for block in self.blocks)
        for _ in range(count):
            address = (block_end + stream.zigzag()) & ADDRESS_MASK
            block = Block(address, stream.take(stream.varint()), accesses)
            instruction = 0
            for _ in range(stream.varint()):
                step = stream.varint()
                instruction += step >> 2
                block.accesses.append((instruction, step & 3, stream.varint()))
            accesses += len(block.accesses)
            block_end = (address + sum(block.sizes)) & ADDRESS_MASK
            self.blocks.append(block)
        assert stream.is_empty()
        return block_end

    @staticmethod
    def _events(stream: Stream, count: int) -> list[tuple[int, Event]]:
        events, place = [], 0
        for _ in range(count):
            place += stream.varint()
            kind = stream.take(1)[0]
            if kind == 0:
                fields: tuple[int | str, ...] = (stream.varint(),)
            elif kind == 3:
                fields = (stream.varint(), stream.varint())
            elif kind in (4, 5):
                fields = (stream.take(stream.varint()).decode(),)
            else:
                address, length = stream.varint(), stream.varint()
                fields = (address, length, stream.take(stream.varint()).decode())
            events.append((place, Event(kind, fields)))
        assert stream.is_empty()
        return events

    def _executed(self, count: int, tokens: bytes, escapes: Stream) -> Iterator[Block]:
        last = len(self.blocks) - 1
        successors: dict[int, list[int]] = {}
        before = 0
        for place in range(count):
            known = successors.setdefault(before, [min(before + step, last) for step in (1, 2, 3)])
            token = tokens[place // 4] >> 2 * (place % 4) & 3
            if token == 3:
                block = before + 1 + escapes.zigzag()
                known.pop()
            else:
                block = known.pop(token)
            known.insert(0, block)
            yield self.blocks[block]
            before = block

    @staticmethod
    def _accesses(block: Block) -> range:
        return range(block.first_access, block.first_access + len(block.accesses))

    @staticmethod
    def _address_decoder(bases: bytes, tokens: bytes, payload: Stream) -> Callable[[int], int]:
        """A function that, called with the number of each access in turn, gives its address."""
        sequence: list[int] = []
        own_last: dict[int, int] = {}
        distances: dict[int, int] = {}

        def address(access: int) -> int:
            back = bases[access // 2] >> 4 * (access % 2) & 15
            if back == 0:
                base = own_last.get(access, 0)
            else:
                base = sequence[-back] if back <= len(sequence) else 0
            place = len(sequence)
            length = tokens[place // 2] >> 4 * (place % 2) & 15
            distance = distances.get(access, 0)
            if length > 0:
                distance = int.from_bytes(payload.take(length), "little", signed=True)
            result = (base + distance) & ADDRESS_MASK
            distances[access] = (distance + 2**31) % 2**32 - 2**31
            own_last[access] = result
            sequence.append(result)
            return result

        return address
