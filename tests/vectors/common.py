"""What the makers of the vectors share."""

import json
import zlib


class Random:
    """splitmix64, so that the vectors are the same under every Python."""

    def __init__(self, name):
        self.state = zlib.crc32(name.encode())

    def word(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    def below(self, n):
        return self.bits(n.bit_length() + 64) % n

    def bits(self, n):
        value = 0
        for shift in range(0, n, 64):
            value |= self.word() << shift
        return value & ((1 << n) - 1)

    def bytes(self, n):
        return self.bits(8 * n).to_bytes(n, "little")

    def choice(self, items):
        return items[self.below(len(items))]

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


class Blob:
    """A .bin file: pieces aligned to 16 bytes, equal pieces stored once."""

    def __init__(self):
        self.data = bytearray()
        self.known = {}

    def add(self, piece):
        if piece not in self.known:
            self.data += bytes(-len(self.data) % 16)
            self.known[piece] = len(self.data)
            self.data += piece
        return self.known[piece]

    def bytes(self):
        return bytes(self.data)


def lines(items):
    """The inside of a JSON array or object, an entry a line."""
    if isinstance(items, dict):
        return ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in items.items())
    return ",\n".join(json.dumps(item) for item in items)
