"""layouts.json and layouts.bin: strided copies and casts between two buffers.

Everything is counted in bits, one element at a time, which is slow and hard to get wrong.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product

from common import Blob, Random, lines
from dtypes import BY_DLPACK, dlpack
from values import DTYPES, FINITE, Bool, Complex, Float, Int, Real, Scale, convert, encode

# Strides that no element uses. All are exact as a double, for readers whose JSON numbers are.
GARBAGE = [0, 1, -1, 7, -1000, 1 << 20, 1 << 40, -(1 << 53), 1 << 62, -(1 << 62), -(1 << 63)]


@dataclass(frozen=True)
class Type:
    code: int
    bits: int
    lanes: int = 1

    @property
    def width(self):
        """Bits of an element, all lanes."""
        return self.bits * self.lanes

    def unit(self, padded):
        """Bits from one element to the next."""
        return self.width if self.bits < 8 and not padded else (self.width + 7) // 8 * 8

    def json(self):
        return {"code": self.code, "bits": self.bits, "lanes": self.lanes}

    def named(self):
        return BY_DLPACK[self.code, self.bits]

    def __str__(self):
        dtype = BY_DLPACK.get((self.code, self.bits))
        name = dtype.name if dtype else f"code{self.code}_{self.bits}"
        return f"{name}x{self.lanes}" if self.lanes > 1 else name


def named(name, lanes=1):
    return Type(*dlpack(DTYPES[name]), lanes)


def compact(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


@dataclass
class Side:
    """A tensor in a buffer. strides: None is DLPack's NULL."""

    type: Type
    padded: bool
    strides: list | None
    byte_offset: int = 0
    data: bytes = b""

    def positions(self, shape):
        """The first bit of each element, in row-major order of the indices."""
        if 0 in shape:
            return
        unit = self.type.unit(self.padded)
        strides = compact(shape) if self.strides is None else self.strides
        for index in product(*map(range, shape)):
            yield self.byte_offset * 8 + unit * sum(i * s for i, s in zip(index, strides, strict=True))

    def place(self, shape, random, misalign):
        """Chooses byte_offset, so that every element is inside, and fills the buffer."""
        unit = self.type.unit(self.padded)
        align = 1 if misalign else max(unit // 8, 1)
        bits = list(self.positions(shape))
        low, high = (min(bits), max(bits) + unit) if bits else (0, 0)
        self.byte_offset = -(low // 8) + (random.below(9) if misalign else 0)
        self.byte_offset += -self.byte_offset % align
        if misalign and unit >= 16 and self.byte_offset % (unit // 8) == 0:
            self.byte_offset += 1
        size = self.byte_offset - (-high // 8) + random.below(6)
        self.data = random.bytes(size)


def read(data, bit, width):
    first, last = bit // 8, (bit + width + 7) // 8
    return int.from_bytes(data[first:last], "little") >> bit % 8 & ((1 << width) - 1)


def write(data, bit, width, value):
    first, last = bit // 8, (bit + width + 7) // 8
    mask = ((1 << width) - 1) << bit % 8
    whole = int.from_bytes(data[first:last], "little") & ~mask | value << bit % 8
    data[first:last] = whole.to_bytes(last - first, "little")


def copy(source, destination, shape):
    """The destination's buffer after the copy."""
    after = bytearray(destination.data)
    same = source.type == destination.type
    reading, writing = source.type.unit(source.padded), destination.type.unit(destination.padded)
    # Between equals all bits move, the unused ones of padded elements included.
    width = reading if same and reading == writing else source.type.width
    for here, there in zip(source.positions(shape), destination.positions(shape), strict=True):
        element = read(source.data, here, width)
        if not same:
            element = cast(source.type, destination.type, element)
        write(after, there, writing, element)
    return bytes(after)


def cast(source, target, element):
    assert source.lanes == target.lanes
    result = 0
    for lane in range(source.lanes):
        code = element >> lane * source.bits & ((1 << source.bits) - 1)
        result |= convert(source.named(), target.named(), code) << lane * target.bits
    return result


def plausible(dtype, random):
    """A value that a cast does something with: random bits are mostly far out of range."""
    if isinstance(dtype, Complex):
        return plausible(dtype.part, random) | plausible(dtype.part, random) << dtype.part.bits
    if isinstance(dtype, Bool):
        return random.choice([0, 0, 0, 1, 1, 2, 0x80, 0xFF])
    if isinstance(dtype, Scale) or dtype.bits <= 8 or random.below(5) == 0:
        return random.bits(dtype.bits)
    if isinstance(dtype, Int):
        number = random.below(1 << (1 + random.below(min(dtype.bits, 20))))
        return (-number if dtype.signed and random.below(3) == 0 else number) % (1 << dtype.bits)
    assert isinstance(dtype, Float)
    magnitude = Fraction(random.below(1 << 20), 1 << 20) * Fraction(2) ** (random.below(18) - 6)
    return encode(dtype, Real(FINITE, random.below(3) == 0, magnitude), False)


# ---- strides ------------------------------------------------------------------------------------


def arrange(shape, random, order="C", gaps=False, negative=False, broadcast=False, garbage=False):
    """Strides without self-overlap (broadcast axes aside). order: C, F or random."""
    axes = list(range(len(shape)))
    if order == "C":
        axes.reverse()
    elif order == "random":
        random.shuffle(axes)
    strides, step = [0] * len(shape), 1
    for axis in axes:
        if broadcast and random.below(2) == 0:
            continue
        if gaps and random.below(3) > 0:
            step += 1 + random.below(3)
        strides[axis] = -step if negative and random.below(2) == 0 else step
        step *= max(shape[axis], 1)
    if garbage:
        free = [axis for axis, extent in enumerate(shape) if extent == 1 or 0 in shape]
        for axis in free:
            strides[axis] = random.choice(GARBAGE)
    return strides


LAYOUTS = {
    "compact": {},
    "fortran": {"order": "F"},
    "permuted": {"order": "random"},
    "gaps": {"gaps": True},
    "reversed": {"negative": True},
    "mixed": {"order": "random", "gaps": True, "negative": True, "garbage": True},
}
SHAPES = [(), (1,), (7,), (33,), (3, 5), (8, 9), (1, 13), (4, 1, 6), (2, 3, 4), (5, 2, 7), (2, 3, 1, 4), (3, 2, 2, 5)]
DEEP = [(2, 3, 2, 1, 3), (2, 1, 2, 3, 2, 2), (2, 2, 1, 2, 2, 2, 3), (2, 1, 2, 2, 1, 2, 2, 3), (1, 1, 1, 1, 1, 1, 1, 1)]


class Cases:
    def __init__(self):
        self.blob = Blob()
        self.entries = []
        self.random = Random("layouts")

    def add(self, kind, shape, source, target, from_strides, to_strides, padded=(False, False), misalign=False):
        random = self.random
        src, dst = Side(source, padded[0], from_strides), Side(target, padded[1], to_strides)
        src.place(shape, random, misalign)
        dst.place(shape, random, misalign and random.below(2) == 0)
        if source != target:
            data = bytearray(src.data)
            for bit in src.positions(shape):
                for lane in range(source.lanes):
                    write(data, bit + lane * source.bits, source.bits, plausible(source.named(), random))
            src.data = bytes(data)
        unit = target.unit(padded[1])
        places = sorted(dst.positions(shape))
        assert all(b - a >= unit for a, b in pairwise(places)), "the destination overlaps itself"
        after = copy(src, dst, shape)
        assert len(after) == len(dst.data)
        name = f"{len(self.entries):03} {source}" + ("" if source == target else f" to {target}") + f" {kind}"
        self.entries.append(
            {
                "name": name,
                "from": source.json(),
                "to": target.json(),
                "shape": list(shape),
                "src": {
                    "padded": src.padded,
                    "strides": src.strides,
                    "byte_offset": src.byte_offset,
                    "offset": self.blob.add(src.data),
                    "size": len(src.data),
                },
                "dst": {
                    "padded": dst.padded,
                    "strides": dst.strides,
                    "byte_offset": dst.byte_offset,
                    "before_offset": self.blob.add(dst.data),
                    "after_offset": self.blob.add(after),
                    "size": len(dst.data),
                },
            }
        )

    def arranged(self, shape, source, target, here, there, **more):
        """One case with layouts named on both sides; "broadcast" for the source only."""
        random = self.random
        broadcast = here == "broadcast"
        from_strides = arrange(shape, random, broadcast=broadcast, **LAYOUTS["mixed" if broadcast else here])
        to_strides = arrange(shape, random, **LAYOUTS[there])
        note = "".join(
            f" {side}-padded" for side, p in zip(("src", "dst"), more.get("padded", (False, False)), strict=True) if p
        )
        note += " misaligned" if more.get("misalign") else ""
        self.add(f"{here} to {there}{note}", shape, source, target, from_strides, to_strides, **more)


def byte_moves(cases):
    random = cases.random
    types = [
        named("uint8"), named("int16"), Type(200, 24), named("float32"), Type(77, 40), named("int64"),
        Type(0, 32, 3), named("complex128"), named("float64", 3),
    ]  # 1, 2, 3, 4, 5, 8, 12, 16 and 24 bytes # fmt: skip
    others = [
        named("bool"), named("bfloat16"), named("complex64"), named("float8_e4m3fn"), named("float8_e8m0fnu"),
        Type(5, 32), Type(18, 32), Type(3, 64), Type(0, 128), Type(200, 8, 5), Type(255, 16, 4), named("uint8", 4),
        Type(200, 64, 2), named("float16", 2), Type(130, 8),
    ]  # fmt: skip
    kinds = ["compact", "fortran", "permuted", "gaps", "reversed", "mixed", "broadcast"]
    for i, kind in enumerate(types):
        for j, here in enumerate(kinds):
            there = ["compact", "compact", "gaps", "mixed", "reversed", "fortran", "mixed"][(i + j) % 7]
            shape = (SHAPES[3:] + DEEP[:4])[(i * 7 + j * 5) % (len(SHAPES) + 1)]
            cases.arranged(shape, kind, kind, here, there, misalign=(i + j) % 3 == 0)
    for i, kind in enumerate(others):
        shape = random.choice(SHAPES[4:] + DEEP)
        cases.arranged(shape, kind, kind, random.choice(kinds), random.choice(kinds[:6]), misalign=i % 4 == 3)
    for shape in SHAPES[:3] + DEEP:
        for kind in (named("uint8"), named("float32")):
            cases.arranged(shape, kind, kind, "mixed", "mixed", misalign=random.below(2) == 0)
    # Sizes past the tail of a vector loop or a transpose tile.
    cases.arranged((37, 29), named("uint8"), named("uint8"), "fortran", "compact")
    cases.arranged((35, 33), named("int16"), named("int16"), "compact", "fortran", misalign=True)
    cases.arranged((17, 31), named("float32"), named("float32"), "fortran", "gaps")
    cases.arranged((9, 5, 11), named("float64"), named("float64"), "permuted", "compact")
    cases.arranged((1031,), Type(200, 24), Type(200, 24), "reversed", "compact")


def special_shapes(cases):
    random = cases.random
    f4 = named("float32")
    cases.add("null strides", (3, 4), f4, f4, None, None)
    cases.add("null strides at the source", (2, 1, 5), f4, f4, None, [1, 3, 2])
    cases.add("null strides at the destination", (4, 3), f4, f4, [1, 4], None)
    cases.add("null strides, rank 0", (), f4, f4, None, None)
    cases.add("overlapping windows", (6, 4), f4, f4, [1, 1], [4, 1])
    cases.add("overlapping windows backwards", (5, 3), named("uint8"), named("uint8"), [-1, 2], None)
    cases.add("one element everywhere", (4, 5), f4, f4, [0, 0], [5, 1])
    cases.add("merged axes with a twist", (2, 3, 4, 5), f4, f4, [60, 20, 5, 1], [1, 2, 30, 6])
    for shape in ((0,), (3, 0, 2), (0, 0), (1, 0), (5, 0, 1 << 40)):
        for kind in (f4, named("float4_e2m1fn"), Type(200, 24)):
            strides = [[random.choice(GARBAGE) for _ in shape] for _ in range(2)]
            if kind.code == 200:
                strides = [None, None]
            cases.add("empty", shape, kind, kind, *strides, misalign=kind.bits == 32)
    cases.add("empty cast", (2, 0), f4, named("int8"), [random.choice(GARBAGE) for _ in range(2)], None)
    for i in range(3):
        shape = [1] * 64
        for extent in (2, 3, 2, 4):
            shape[random.below(64)] = extent
        kind = (f4, Type(1, 4), named("uint8"))[i]
        cases.arranged(tuple(shape), kind, kind, "mixed", "mixed", misalign=i == 2)
    cases.arranged((1,) * 63 + (9,), f4, named("int16"), "mixed", "mixed")
    cases.arranged((1, 1, 1), f4, f4, "mixed", "mixed")
    cases.arranged((1, 6, 1), f4, f4, "mixed", "mixed", padded=(True, False))  # a flag that means nothing here


def sub_bytes(cases):
    random = cases.random
    types = [
        Type(6, 1), Type(1, 1), Type(0, 2), Type(1, 4), Type(0, 4), named("float4_e2m1fn"), named("float6_e2m3fn"),
        named("float6_e3m2fn"), Type(200, 6), Type(1, 4, 2), Type(0, 2, 3), named("float4_e2m1fn", 3), Type(1, 1, 8),
        named("float6_e3m2fn", 4), Type(1, 1, 5), Type(200, 4, 5), Type(77, 3), Type(77, 7),
    ]  # fmt: skip
    shapes = SHAPES[2:] + DEEP[:3]
    flags = [(False, False), (True, False), (False, True), (True, True)]
    kinds = ["compact", "reversed", "gaps", "permuted", "mixed", "broadcast"]
    for i, kind in enumerate(types):
        for j, padded in enumerate(flags):
            here, there = kinds[(i + j) % 6], random.choice(kinds[:5])
            shape = shapes[(i * 4 + j * 3) % len(shapes)]
            cases.arranged(shape, kind, kind, here, there, padded=padded, misalign=(i + j) % 3 == 1)
    for kind in (Type(1, 1), Type(1, 4), named("float6_e2m3fn")):
        for shape in ((), (1,), (5,)):
            cases.add("null strides", shape, kind, kind, None, None)
        cases.arranged((101,), kind, kind, "compact", "compact")
        cases.arranged((19, 7), kind, kind, "fortran", "compact")


def casts(cases):
    random = cases.random
    names = [name for name in DTYPES if DTYPES[name].bits >= 8]
    kinds = ["compact", "fortran", "permuted", "gaps", "reversed", "mixed", "broadcast"]
    for i, name in enumerate(names):  # each whole-byte dtype once as a source and once as a target
        other = names[(i * 5 + 3) % len(names)]
        shape = random.choice(SHAPES[2:] + DEEP)
        cases.arranged(shape, named(name), named(other), kinds[i % 7], random.choice(kinds[:6]), misalign=i % 3 == 0)
    pairs = [
        ("int16", "float32"), ("float32", "int8"), ("float64", "float32"), ("complex128", "complex64"),
        ("complex64", "float32"), ("float32", "complex64"), ("bool", "float32"), ("float32", "bool"),
        ("complex128", "bool"), ("uint8", "int64"), ("int64", "int8"), ("float32", "bfloat16"), ("bfloat16", "float32"),
        ("float64", "float16"), ("float32", "float8_e4m3fn"), ("float8_e5m2", "float32"), ("bool", "complex128"),
    ]  # fmt: skip
    for i, (a, b) in enumerate(pairs):
        cases.arranged(random.choice(SHAPES[3:]), named(a), named(b), "mixed", "mixed", misalign=i % 2 == 0)
    small = ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"]
    wide = ["float32", "float8_e4m3fn", "int16", "complex64", "bool", "bfloat16", "float64", "float16", "uint8"]
    for i, other in enumerate(wide):
        a = small[i % 3]
        cases.arranged(SHAPES[3 + i], named(a), named(other), kinds[i % 7], "mixed", padded=(i % 2 == 1, False))
        cases.arranged(SHAPES[3 + i], named(other), named(a), "mixed", kinds[i % 6], padded=(False, i % 4 == 1))
    for i, padded in enumerate(((False, False), (True, False), (False, True), (True, True))):
        cases.arranged((3, 7), named(small[i % 3]), named(small[(i + 1) % 3]), "mixed", "gaps", padded=padded)
    for a, b, lanes, padded in (
        ("float32", "float16", 2, (False, False)),
        ("int8", "float64", 3, (False, False)),
        ("bool", "int32", 4, (False, False)),
        ("float32", "complex64", 2, (False, False)),
        ("float4_e2m1fn", "float32", 2, (False, False)),
        ("float32", "float4_e2m1fn", 2, (False, False)),
        ("float4_e2m1fn", "float16", 3, (False, False)),
        ("float32", "float4_e2m1fn", 3, (False, True)),
        ("float6_e2m3fn", "float4_e2m1fn", 5, (True, False)),
        ("float8_e5m2", "float6_e3m2fn", 4, (False, False)),
    ):
        cases.arranged((3, 4), named(a, lanes), named(b, lanes), "mixed", "mixed", padded=padded)
    for a, b in (("float32", "uint8"), ("uint8", "float32"), ("int16", "float32"), ("float32", "float4_e2m1fn")):
        cases.arranged((211,), named(a), named(b), "compact", "compact")
    cases.arranged((23, 19), named("int16"), named("float32"), "fortran", "compact")
    cases.arranged((23, 19), named("float64"), named("float16"), "compact", "fortran")


def make():
    cases = Cases()
    for group in (byte_moves, special_shapes, sub_bytes, casts):
        group(cases)
    text = "[\n" + lines(cases.entries) + "\n]\n"
    return {"layouts.json": text.encode(), "layouts.bin": cases.blob.bytes()}
