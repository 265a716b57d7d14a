import { call, text } from './library.js';
import { Struct } from './struct.js';

const parsed = new Map();

/** {code, bits, lanes} of a name, an array-interface typestr or a PEP 3118 format. */
export function parseDtype(name) {
  if (typeof name !== 'string' || name.includes('\0')) {
    throw new TypeError(`dtype is ${name}: expected a string without NUL`);
  }
  const known = parsed.get(name);
  if (known) {
    return known;
  }
  const dtype = new Struct('DLDataType');
  call('ab_dtype_parse', Buffer.from(`${name}\0`), dtype.memory);
  const found = Object.freeze({ code: dtype.get('code'), bits: dtype.get('bits'), lanes: dtype.get('lanes') });
  if (parsed.size < 1000) {
    parsed.set(name, found);
  }
  return found;
}

/** The name of {code, bits, lanes}. */
export function formatDtype(dtype) {
  const struct = new Struct('DLDataType');
  writeDtype(struct, '', dtype);
  return text('ab_dtype_format', struct);
}

/** Writes a dtype, however it is given, into fields that begin with `prefix`. */
export function writeDtype(struct, prefix, dtype) {
  const { code, bits, lanes = 1 } = typeof dtype === 'string' ? parseDtype(dtype) : dtype;
  struct.set(`${prefix}code`, code);
  struct.set(`${prefix}bits`, bits);
  struct.set(`${prefix}lanes`, lanes);
}

const arrays = {
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float32: Float32Array,
  float64: Float64Array,
};
if (globalThis.Float16Array) {
  arrays.float16 = globalThis.Float16Array;
}
const names = new Map(Object.entries(arrays).map(([name, constructor]) => [constructor.name, name]));
// What JavaScript has no array for is read as its bits, complex numbers as their parts.
const bits = { float16: Uint16Array, bfloat16: Uint16Array, complex64: Float32Array, complex128: Float64Array };

/** The dtype of a TypedArray; bytes for a Buffer, a DataView or an ArrayBuffer. */
export function dtypeOf(array) {
  return names.get(array.constructor.name) ?? 'uint8';
}

/** The TypedArray for a dtype's name. */
export function arrayOf(name) {
  return arrays[name] ?? bits[name] ?? Uint8Array;
}
