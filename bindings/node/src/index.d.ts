/**
 * Brings any DLPack tensor to the device, dtype and layout that you need: zero copy when possible, else
 * in one pass. Names of constants are those of the C ABI in lower case, without their prefix.
 */

/** The values of the C ABI, `AB_E_COPY_REQUIRED` and the like. */
export const constants: Readonly<Record<string, number>>;

/** Memory of JavaScript that can be wrapped: neither resizable nor detached. */
export type Wrappable =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array
  | DataView
  | ArrayBuffer
  | SharedArrayBuffer;

/** What `typedArray()` gives: float16 and bfloat16 as their bits where JavaScript has no array for them,
 * complex numbers as pairs, everything of a byte as bytes. */
export type NumberArray = Exclude<Wrappable, DataView | ArrayBuffer | SharedArrayBuffer | Uint8ClampedArray>;

/** A DLPack dtype: a code (`constants.kDLFloat`), bits of one lane, and lanes, 1 if not given. */
export interface DataType {
  code: number;
  bits: number;
  lanes?: number;
}

/** A DLPack device: 'cpu', 'cuda', 'cudahost', 'opencl', ... or a number that has no name here. */
export interface Device {
  type: string | number;
  id?: number;
}

export type Consumer =
  | 'numpy'
  | 'torch'
  | 'jax'
  | 'tensorflow'
  | 'cupy'
  | 'numba'
  | 'pyclesperanto'
  | 'paddle'
  | 'mlx'
  | 'tvm_ffi';

/** What a result must be; nothing given: as the source, zero copy when possible. */
export interface Options {
  /** Not given: the source's, or the nearest one that all consumers take. */
  device?: Device;
  /** A name ("float32", "<f4"), or code, bits and lanes. */
  dtype?: string | DataType;
  /** 'never' throws AB_E_COPY_REQUIRED rather than copy. */
  copy?: 'if_needed' | 'always' | 'never';
  /** 'c' row-major, 'f' column-major, 'keep' the source's order of axes. */
  layout?: 'any' | 'c' | 'f' | 'keep';
  /** 'exact' throws AB_E_LOSSY if a value is not the same number after the cast. */
  casting?: 'unsafe' | 'same_kind' | 'safe' | 'exact';
  /** Bytes, a power of two, that the first element's address is a multiple of. */
  alignment?: number;
  /** Importers that must all take the result without a copy of their own. */
  consumers?: Iterable<Consumer>;
  /** Numbers beyond the dtype's range become its limits. */
  saturate?: boolean;
  /** A read-only source is copied. */
  writable?: boolean;
  /** Check the declared device against the driver first. */
  verifyPointer?: boolean;
  /** The stream or queue after which the source is ready, as in the array API. */
  srcStream?: number | bigint;
  /** The stream or queue on which the result is used. */
  dstStream?: number | bigint;
}

/** What a call did or would do; `String(report)` is one English line. */
export interface Report {
  readonly route: 'zero_copy' | 'host' | 'upload' | 'download' | 'device' | 'peer' | 'staged';
  readonly zeroCopy: boolean;
  /** Everything that ruled out zero copy. */
  readonly reasons: ('requested' | 'device' | 'dtype' | 'layout' | 'alignment' | 'read_only' | 'consumer')[];
  /** Times the data is read and written. */
  readonly passes: number;
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly scratchBytes: number;
  /** 0 in a plan. */
  readonly nanoseconds: number;
  toString(): string;
}

/** What a tensor is. */
export interface TensorInfo {
  /** 'c_contiguous', 'dense', 'read_only', 'host_readable', ... */
  flags: string[];
  device: Required<Device>;
  dtype: string;
  ndim: number;
  numElements: number;
  numBytes: number;
  /** Bytes from `data`: every element lies between the two. */
  beginOffset: number;
  endOffset: number;
  /** Largest power of two up to 4096 that divides the first element's address. */
  alignment: number;
  /** Importers that take the tensor as it stands. */
  acceptedBy: Consumer[];
}

/**
 * A DLPack tensor that this object owns. What is not closed is closed when it is collected. Methods of a
 * closed tensor throw ClosedError; those that need the native library throw ArraybridgeError with its
 * message.
 *
 * The memory of a tensor is freed when it is closed and no TypedArray over it can be reached anymore:
 * an array never loses its memory. Tensors cannot be posted to other workers: post a SharedArrayBuffer,
 * and wrap it there.
 */
export class Tensor {
  private constructor();

  /**
   * Takes over the DLManagedTensorVersioned at an address: its deleter is called once, when the tensor is
   * closed. The address is trusted.
   */
  static fromDLPack(pointer: bigint): Tensor;

  readonly shape: number[];
  /** In elements, as DLPack counts. */
  readonly strides: number[];
  readonly dtype: string;
  readonly dataType: Required<DataType>;
  readonly device: Required<Device>;
  readonly readOnly: boolean;
  /** Whether the library made its memory. */
  readonly copied: boolean;
  /** What the call that made it did; null if wrap() or fromDLPack() did. */
  readonly report: Report | null;
  readonly closed: boolean;
  /** Address of the DLManagedTensorVersioned, for native code to read while this is open. */
  readonly pointer: bigint;

  detect(): TensorInfo;

  /** The tensor as asked for; takes this one over, as close() does, unless it throws. */
  convert(options?: Options): Tensor;

  /** The same on another thread. This tensor cannot be used meanwhile. */
  convertAsync(options?: Options): Promise<Tensor>;

  /** New memory, independent of this tensor. */
  copy(options?: Options): Tensor;

  /** The same on another thread. */
  copyAsync(options?: Options): Promise<Tensor>;

  /** Copies into a tensor of the same shape; `options` may set casting, saturate and streams. */
  copyInto(destination: Tensor, options?: Options): Report;

  /** The same on another thread: leave both memories alone until it is done. */
  copyIntoAsync(destination: Tensor, options?: Options): Promise<Report>;

  /** What convert() would do, without doing it; throws what it would throw. */
  plan(options?: Options): Report;

  /** The tensor's own memory, row-major on the host: no copy. It stays valid after close(). */
  typedArray(): NumberArray;

  /**
   * Hands the tensor out: the address of a DLManagedTensorVersioned whose deleter the receiver calls.
   * Throws if the memory is JavaScript's, whose end nobody could tell: hand out a copy() then.
   */
  toDLPack(): bigint;

  /** Closes the tensor at once; a second time does nothing. `using` calls it too. */
  close(): void;
}

/** How memory is laid out. */
export interface Layout {
  /** Not given: one axis of all elements. */
  shape?: Iterable<number | bigint>;
  /** In elements; negative and zero are allowed. Not given: row-major. */
  strides?: Iterable<number | bigint>;
  /** Not given: that of the TypedArray, bytes for all else. Needs a shape. */
  dtype?: string | DataType;
  /** Bytes from the array's beginning to the first element. */
  byteOffset?: number | bigint;
  /** Nobody writes to it through this tensor. */
  readOnly?: boolean;
  /** Elements of less than a byte take a byte each. */
  subbytePadded?: boolean;
}

/**
 * A tensor over the array's own memory, which it keeps alive. Throws RangeError if elements would lie
 * outside of it.
 */
export function wrap(array: Wrappable, layout?: Layout): Tensor;

/** Reads the name of a dtype, an array-interface typestr or a PEP 3118 format. */
export function parseDtype(name: string): Readonly<Required<DataType>>;

/** "float32", "bfloat16", "float32x4". */
export function formatDtype(dtype: DataType | string): string;

/** The backends of the library, usable or not, and why not. */
export function backends(): { name: string; available: boolean; detail: string }[];

/** The devices that can be used here. Starts their drivers. */
export function devices(): {
  type: string | number;
  id: number;
  name: string;
  backend: string;
  totalMemory: number;
  freeMemory: number;
}[];

/** "MAJOR.MINOR.PATCH" of the native library. */
export function version(): string;

/** Where it was found. */
export function libraryPath(): string;

/** What the native library refused or failed at. */
export class ArraybridgeError extends Error {
  /** One of the negative AB_E_*. */
  readonly status: number;
  /** Its name, "AB_E_COPY_REQUIRED". */
  readonly code: string;
  /** The driver's own error number, or 0n. */
  readonly nativeCode: bigint;
}

/** A tensor was used after close(), or after convert() or toDLPack() had taken it. */
export class ClosedError extends Error {
  readonly code: 'ERR_ARRAYBRIDGE_CLOSED';
}

/** There is no shared library, or it is not one for this package: the message says where it looked. */
export class LoadError extends Error {
  readonly code: 'ERR_ARRAYBRIDGE_LOAD';
}
