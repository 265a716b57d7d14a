"""dtypes.json (what ab_dtype_parse takes and refuses) and can_cast.json (NumPy's casting rules)."""

import ml_dtypes
import numpy as np

from common import lines
from values import DTYPES, Bool, Complex, Int

INT, UINT, FLOAT, OPAQUE, BFLOAT, COMPLEX, BOOL = range(7)
SMALL = {  # DLPack's codes of the formats of at most 8 bits
    name: code
    for code, name in enumerate(
        (
            "float8_e3m4",
            "float8_e4m3",
            "float8_e4m3b11fnuz",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e5m2",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "float6_e2m3fn",
            "float6_e3m2fn",
            "float4_e2m1fn",
        ),
        start=7,
    )
}


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def dlpack(dtype):
    """DLPack's (code, bits) of a dtype of values.py."""
    if dtype.name in SMALL:
        return SMALL[dtype.name], dtype.bits
    if dtype.name == "bfloat16":
        return BFLOAT, 16
    if isinstance(dtype, Int):
        return (INT if dtype.signed else UINT), dtype.bits
    return {Bool: BOOL, Complex: COMPLEX}.get(type(dtype), FLOAT), dtype.bits


BY_DLPACK = {dlpack(dtype): dtype for dtype in DTYPES.values()}

# ---- spellings ----------------------------------------------------------------------------------

TYPESTR = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
    "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64",
    "c16": "complex128",
}  # fmt: skip
PEP3118 = {
    "?": "bool", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "q": "int64",
    "Q": "uint64", "e": "float16", "f": "float32", "d": "float64", "Zf": "complex64", "Zd": "complex128",
}  # fmt: skip
ONE_BYTE_PEP3118 = "?bB"


def spellings():
    """Every accepted text with the name of its dtype."""
    yield from ((name, name) for name in DTYPES)
    for text, name in TYPESTR.items():
        for order in "<=":
            yield order + text, name
        if text[1:] == "1":  # no byte order to be wrong about
            yield "|" + text, name
            yield ">" + text, name
    for text, name in PEP3118.items():
        for order in ("", "@", "=", "<"):
            yield order + text, name
        if text in ONE_BYTE_PEP3118:
            yield ">" + text, name
            yield "!" + text, name
    # C's long: 8 bytes in native mode (LP64), 4 in standard mode. ssize_t and size_t are native only.
    for order, bits in (("", 64), ("@", 64), ("=", 32), ("<", 32)):
        yield order + "l", f"int{bits}"
        yield order + "L", f"uint{bits}"
    for order in ("", "@"):
        yield order + "n", "int64"
        yield order + "N", "uint64"


REFUSED = [
    # another byte order
    *(">" + t for t in TYPESTR if t[1:] != "1"),
    *(order + t for order in ">!" for t in PEP3118 if t not in ONE_BYTE_PEP3118),
    *(order + t for order in ">!" for t in "lL"),
    *(order + t for order in "=<>!" for t in "nN"),
    # array-interface types that DLPack has no word for
    "<M8[ns]", "<M8", "<m8", "<m8[us]", "|O", "|O8", "<U4", "|S3", "|V2", "|V4", "<V2", "<f16", "<c32", "<f3", "<f1",
    "<i3", "<i16", "<u0", "|b2", "|t1",
    # PEP 3118 types likewise
    "g", "<g", "Zg", "T{...}", "T{f:x:d:y:}", "T{}", "P", "s", "3s", "x", "2f", "<2f", "ff", "fd", "(2,3)f", "c", "O",
    "@O", "&f", "X{}", "p", "t", "u", "w", "Z", "<Z", "Zi", "zf", "f:x:", "@ f", "f ",
    # names of other things
    "object", "str", "datetime64[ns]", "None", "float8", "float33", "int33", "complex", "bfloat", "bfloat32", "float80",
    "float8_e4m3fnx", "float8_e4m3fnu", "float6", "float4",
    # case matters
    "Float32", "FLOAT32", "fLoat32", "BFloat16", "BOOL", "Bool", "Complex64", "float8_E4M3FN", "<F4", "|B1", "<I8",
    # garbage
    "", " ", "<", ">", "=", "|", "@", "!", "<<f4", "<|f4", "f4<", "<f4 ", " <f4", "<f4x", "<f-4", "<f+4", "<f04",
    "<f4294967300", "<f18446744073709551620", "<4f", "<f4,<f4", "float33x", "flaot32", "float32 ", " float32",
    "float32\n", "float32\t", "float 32", "float032", "float32x", "float32,", "float320", "float3", "float-32",
    "float4294967328", "float32float32", "float32\\0", "float32;", "'float32'", "\u00e9", "float\uff13\uff12",
    "\u6d6e\u70b932", "\U0001f9ee", "%s", "%n%n%n", "\x7f", "f" * 5000, "float32" * 300,
]  # fmt: skip


def make():
    accepted = {}
    for text, name in spellings():
        assert accepted.setdefault(text, name) == name, text
        if text not in SMALL and text != "bfloat16" and text[0] in "<>=|" and text[1:] in TYPESTR:
            assert np.dtype(text) == np.dtype(name), text
    entries = []
    for text, name in accepted.items():
        code, bits = dlpack(DTYPES[name])
        entries.append({"text": text, "code": code, "bits": bits, "lanes": 1, "name": name})
    assert not accepted.keys() & set(REFUSED) and len(set(REFUSED)) == len(REFUSED)
    entries += ({"text": text, "refused": True} for text in REFUSED)
    rules = {
        casting: [
            [a, b] for a in DTYPES for b in DTYPES if np.can_cast(numpy_dtype(a), numpy_dtype(b), casting=casting)
        ]
        for casting in ("safe", "same_kind")
    }
    text = ",\n".join(f'"{casting}": [\n{lines(pairs)}\n]' for casting, pairs in rules.items())
    return {
        "dtypes.json": ("[\n" + lines(entries) + "\n]\n").encode(),
        "can_cast.json": ("{" + text + "}\n").encode(),
    }
