import koffi from 'koffi';

import { constants, structs } from './abi.js';
import { arrayOf, dtypeOf, formatDtype, writeDtype } from './dtype.js';
import { call, callAsync, text } from './library.js';
import { Memory } from './memory.js';
import * as names from './names.js';
import { Struct } from './struct.js';

const {
  AB_ROUTE_ZERO_COPY,
  DLPACK_FLAG_BITMASK_READ_ONLY: READ_ONLY,
  DLPACK_FLAG_BITMASK_IS_COPIED: IS_COPIED,
  DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED: PADDED,
} = constants;
const managed = structs.DLManagedTensorVersioned;
const TENSOR = BigInt(managed.fields['dl_tensor.data'][0]);
const FLAGS = BigInt(managed.fields.flags[0]);

const closing = new FinalizationRegistry((memory) => memory.close('closed'));

/** The DLPACK_FLAG_BITMASK_* of a managed tensor. */
function flagsOf(pointer) {
  return BigInt(koffi.decode.uint64(pointer + FLAGS));
}

/** Only this module makes tensors. */
const key = Symbol('arraybridge');

export class Tensor {
  #memory;
  #described;

  constructor(secret, memory, report = null) {
    if (secret !== key) {
      throw new TypeError('tensors are made by wrap(), fromDLPack(), convert() and copy()');
    }
    this.#memory = memory;
    this.report = report;
    closing.register(this, memory, this);
  }

  /** Takes over a DLManagedTensorVersioned at an address. */
  static fromDLPack(pointer) {
    if (typeof pointer !== 'bigint' || pointer === 0n) {
      throw new TypeError(`pointer is ${pointer}: expected the address of a DLManagedTensorVersioned as a bigint`);
    }
    return new Tensor(key, new Memory(pointer, null));
  }

  get closed() {
    return this.#memory.state !== 'open';
  }

  close() {
    closing.unregister(this);
    this.#memory.close('closed');
  }

  toDLPack() {
    return this.#use((pointer) => {
      const memory = this.#memory;
      if (memory.array || memory.looks.count) {
        throw new TypeError(
          "the tensor's memory is JavaScript's or is looked at from JavaScript: hand out copy() of it instead",
        );
      }
      this.#exclusive();
      closing.unregister(this);
      memory.state = 'handed out by toDLPack()';
      memory.forget();
      return pointer;
    });
  }

  get pointer() {
    return this.#use((pointer) => pointer);
  }

  #use(body) {
    const memory = this.#memory;
    const pointer = memory.enter();
    try {
      return body(pointer);
    } finally {
      memory.leave();
    }
  }

  async #useAsync(body) {
    const memory = this.#memory;
    const pointer = memory.enter();
    try {
      return await body(pointer);
    } finally {
      memory.leave();
    }
  }

  #exclusive() {
    if (this.#memory.uses > 1) {
      throw new Error('the tensor is in use by an asynchronous call: await it first');
    }
  }

  /** The struct's fields, read once: they never change. */
  get #fields() {
    return (this.#described ??= this.#use((pointer) => {
      const struct = new Struct('DLManagedTensorVersioned', koffi.view(pointer, managed.size).slice(0));
      const ndim = struct.get('dl_tensor.ndim');
      const extents = (field) => {
        const address = struct.get(`dl_tensor.${field}`);
        return ndim && address ? [...new BigInt64Array(koffi.view(address, ndim * 8).slice(0))].map(Number) : [];
      };
      const type = struct.get('dl_tensor.device.device_type');
      const dtype = {
        code: struct.get('dl_tensor.dtype.code'),
        bits: struct.get('dl_tensor.dtype.bits'),
        lanes: struct.get('dl_tensor.dtype.lanes'),
      };
      return {
        data: struct.get('dl_tensor.data') + struct.get('dl_tensor.byte_offset'),
        shape: extents('shape'),
        strides: extents('strides'),
        device: { type: names.name(names.devices, type), id: struct.get('dl_tensor.device.device_id') },
        dataType: dtype,
        dtype: formatDtype(dtype),
      };
    }));
  }

  #field(name) {
    this.#memory.enter();
    this.#memory.leave();
    return this.#fields[name];
  }

  get shape() {
    return [...this.#field('shape')];
  }

  get strides() {
    return [...this.#field('strides')];
  }

  get dtype() {
    return this.#field('dtype');
  }

  get dataType() {
    return { ...this.#field('dataType') };
  }

  get device() {
    return { ...this.#field('device') };
  }

  get readOnly() {
    return this.#use((pointer) => Boolean(flagsOf(pointer) & BigInt(READ_ONLY)));
  }

  get copied() {
    return this.#use((pointer) => Boolean(flagsOf(pointer) & BigInt(IS_COPIED)));
  }

  detect() {
    return this.#use((pointer) => detect(pointer));
  }

  convert(options) {
    return this.#take(options, (given) => this.#converted(given, call(...given.call), this.#memory));
  }

  convertAsync(options) {
    return this.#takeAsync(options, async (given) => this.#converted(given, await callAsync(...given.call), this.#memory));
  }

  #taken(options, pointer) {
    this.#exclusive();
    const given = request(options);
    const { memory: wanted } = given.options;
    const { memory: report } = given.report;
    const out = (given.out = new BigUint64Array(1));
    const tensor = pointer + TENSOR;
    // Memory that someone looks at must outlive a copy of it, which ab_convert would not let it.
    given.keeps = this.#memory.looks.count > 0 && !planned(pointer, given).zeroCopy;
    given.call = given.keeps
      ? ['ab_copy', null, tensor, flagsOf(pointer), wanted, out, report]
      : ['ab_convert', null, pointer, wanted, out, report];
    return given;
  }

  #take(options, body) {
    return this.#use((pointer) => body(this.#taken(options, pointer)));
  }

  #takeAsync(options, body) {
    return this.#useAsync((pointer) => {
      const given = this.#taken(options, pointer);
      // Nobody else may begin to use what is about to be taken over.
      const memory = this.#memory;
      memory.state = 'being converted';
      return body(given).catch((error) => {
        memory.state = 'open';
        throw error;
      });
    });
  }

  #converted(given, _, memory) {
    closing.unregister(this);
    memory.state = 'taken over by convert()';
    const shares = given.report.get('route') === AB_ROUTE_ZERO_COPY;
    const result = new Memory(given.out[0], shares ? memory.array : null);
    if (shares) {
      memory.handOver(result);
    }
    if (!given.keeps) {
      memory.forget();
    }
    return new Tensor(key, result, reported(given.report));
  }

  copy(options) {
    return this.#use((pointer) => {
      const given = copying(pointer, options);
      call(...given.call);
      return given.result();
    });
  }

  copyAsync(options) {
    return this.#useAsync(async (pointer) => {
      const given = copying(pointer, options);
      await callAsync(...given.call);
      return given.result();
    });
  }

  #into(options, from, to) {
    const given = request(options);
    given.call = [
      'ab_copy_into',
      null,
      from + TENSOR,
      flagsOf(from),
      to + TENSOR,
      flagsOf(to),
      given.options.memory,
      given.report.memory,
    ];
    return given;
  }

  copyInto(destination, options) {
    return this.#use((from) =>
      mustBeTensor(destination).#use((to) => {
        const given = this.#into(options, from, to);
        call(...given.call);
        return reported(given.report);
      }),
    );
  }

  copyIntoAsync(destination, options) {
    return this.#useAsync((from) =>
      mustBeTensor(destination).#useAsync(async (to) => {
        const given = this.#into(options, from, to);
        await callAsync(...given.call);
        return reported(given.report);
      }),
    );
  }

  plan(options) {
    return this.#use((pointer) => planned(pointer, request(options)));
  }

  typedArray() {
    return this.#use((pointer) => {
      const { data, dtype } = this.#fields;
      const info = detect(pointer);
      if (info.flags.includes('read_only')) {
        throw new TypeError('the tensor is read-only, which no TypedArray can be: convert({ writable: true }) it first');
      }
      if (!info.flags.includes('host_readable') || !info.flags.includes('c_contiguous')) {
        throw new TypeError(
          `the tensor is on ${info.device.type} and ${info.flags.join(', ')}: ` +
            "convert({ device: { type: 'cpu' }, layout: 'c' }) it first",
        );
      }
      const array = arrayOf(dtype);
      const size = info.numBytes;
      if (size === 0) {
        return new array(0);
      }
      const memory = this.#memory;
      const [buffer, offset] = memory.array
        ? [memory.array, Number(data - addressOf(memory.array))]
        : [memory.look(data, size), 0];
      if (offset % array.BYTES_PER_ELEMENT) {
        throw new RangeError(`the data is ${offset} bytes into its ArrayBuffer: ${array.name} cannot begin there; copy()`);
      }
      return new array(buffer, offset, size / array.BYTES_PER_ELEMENT);
    });
  }

  [Symbol.dispose ?? Symbol.for('Symbol.dispose')]() {
    this.close();
  }

  [Symbol.for('nodejs.util.inspect.custom')]() {
    if (this.closed) {
      return `Tensor(${this.#memory.state})`;
    }
    const { shape, dtype, device } = this.#fields;
    return `Tensor([${shape}], ${dtype}, ${device.type}:${device.id})`;
  }
}

function mustBeTensor(tensor) {
  if (!(tensor instanceof Tensor)) {
    throw new TypeError('destination is no Tensor: wrap() the array first');
  }
  return tensor;
}

/** Options and room for a report, in memory that lives as long as the call. */
function request(options = {}) {
  const struct = new Struct('ab_convert_options');
  const known = {
    device: ({ type, id = 0 }) => {
      struct.set('device.device_type', typeof type === 'number' ? type : names.value(names.devices, type, 'device.type'));
      struct.set('device.device_id', id);
    },
    dtype: (dtype) => writeDtype(struct, 'dtype.', dtype),
    copy: (copy) => struct.set('copy', names.value(names.copies, copy, 'copy')),
    layout: (layout) => struct.set('layout', names.value(names.layouts, layout, 'layout')),
    casting: (casting) => struct.set('casting', names.value(names.castings, casting, 'casting')),
    alignment: (alignment) => struct.set('alignment', alignment),
    consumers: (list) => struct.set('consumers', names.mask(names.consumers, list, 'consumers')),
    saturate: (on) => on && flag(constants.AB_CONVERT_SATURATE),
    writable: (on) => on && flag(constants.AB_CONVERT_WRITABLE),
    verifyPointer: (on) => on && flag(constants.AB_CONVERT_VERIFY_POINTER),
    srcStream: (stream) => struct.set('src_stream', stream),
    dstStream: (stream) => struct.set('dst_stream', stream),
  };
  const flag = (bit) => struct.set('flags', struct.get('flags') | bit);
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(known, name)) {
      throw new TypeError(`there is no option ${name}: expected one of ${Object.keys(known).join(', ')}`);
    }
    if (value !== undefined) {
      known[name](value);
    }
  }
  return { options: struct, report: new Struct('ab_report') };
}

function copying(pointer, options) {
  const given = request(options);
  const out = new BigUint64Array(1);
  given.call = [
    'ab_copy',
    null,
    pointer + TENSOR,
    flagsOf(pointer),
    given.options.memory,
    out,
    given.report.memory,
  ];
  given.result = () => new Tensor(key, new Memory(out[0], null), reported(given.report));
  return given;
}

function planned(pointer, given) {
  call('ab_plan', null, pointer + TENSOR, flagsOf(pointer), given.options.memory, given.report.memory);
  return reported(given.report);
}

function reported(struct) {
  return Object.freeze({
    route: names.name(names.routes, struct.get('route')),
    zeroCopy: struct.get('route') === AB_ROUTE_ZERO_COPY,
    reasons: names.list(names.reasons, struct.get('reasons')),
    passes: struct.get('passes'),
    bytesRead: struct.number('bytes_read'),
    bytesWritten: struct.number('bytes_written'),
    scratchBytes: struct.number('scratch_bytes'),
    nanoseconds: struct.number('nanoseconds'),
    toString: () => text('ab_report_describe', struct),
  });
}

function detect(pointer) {
  const info = new Struct('ab_tensor_info');
  call('ab_detect', pointer + TENSOR, flagsOf(pointer), info.memory);
  return {
    flags: names.list(names.tensorFlags, info.get('flags')),
    device: { type: names.name(names.devices, info.get('device.device_type')), id: info.get('device.device_id') },
    dtype: formatDtype({
      code: info.get('dtype.code'),
      bits: info.get('dtype.bits'),
      lanes: info.get('dtype.lanes'),
    }),
    ndim: info.get('ndim'),
    numElements: info.number('num_elements'),
    numBytes: info.number('num_bytes'),
    beginOffset: info.number('begin_offset'),
    endOffset: info.number('end_offset'),
    alignment: info.get('alignment'),
    acceptedBy: names.list(names.consumers, info.get('accepted_by')),
  };
}

/** The address of an ArrayBuffer's or a SharedArrayBuffer's memory, which never moves. */
function addressOf(buffer) {
  return koffi.address(new Uint8Array(buffer));
}

/** A tensor over the memory of a TypedArray, Buffer, DataView, ArrayBuffer or SharedArrayBuffer. */
export function wrap(array, { shape, strides, dtype, byteOffset = 0, readOnly = false, subbytePadded = false } = {}) {
  const buffer = ArrayBuffer.isView(array) ? array.buffer : array;
  if (!(buffer instanceof ArrayBuffer) && !(buffer instanceof SharedArrayBuffer)) {
    throw new TypeError('array is neither a TypedArray, Buffer or DataView nor an ArrayBuffer');
  }
  if (buffer.resizable || buffer.growable) {
    throw new TypeError('array is resizable: its memory could go away while it is shared');
  }
  if (dtype !== undefined && shape === undefined) {
    throw new TypeError('dtype is given without a shape');
  }
  const sizes = [...(shape ?? [array.length ?? array.byteLength])];
  const steps = strides ? [...strides] : [];
  if (strides && steps.length !== sizes.length) {
    throw new RangeError(`strides has ${steps.length} axes and shape ${sizes.length}`);
  }
  // The struct, and behind it what it points to.
  const { size } = structs.DLTensor;
  const memory = new ArrayBuffer(size + 8 * (sizes.length + steps.length));
  const view = new Struct('DLTensor', memory);
  const at = koffi.address(memory) + BigInt(size);
  new BigInt64Array(memory, size).set([...sizes, ...steps].map(BigInt));
  const begin = ArrayBuffer.isView(array) ? array.byteOffset : 0;
  // An empty ArrayBuffer has no address.
  view.set('data', buffer.byteLength ? addressOf(buffer) + BigInt(begin) : 0n);
  view.set('device.device_type', constants.kDLCPU);
  view.set('ndim', sizes.length);
  writeDtype(view, 'dtype.', dtype ?? dtypeOf(array));
  view.set('shape', sizes.length ? at : 0n);
  view.set('strides', steps.length ? at + BigInt(8 * sizes.length) : 0n);
  view.set('byte_offset', byteOffset);
  const flags = (readOnly ? READ_ONLY : 0) | (subbytePadded ? PADDED : 0);
  const info = new Struct('ab_tensor_info');
  call('ab_detect', memory, BigInt(flags), info.memory);
  if (info.get('num_elements') && (info.get('begin_offset') < 0n || info.get('end_offset') > array.byteLength)) {
    throw new RangeError(
      `the elements lie in bytes ${info.get('begin_offset')} to ${info.get('end_offset')} ` +
        `of an array of ${array.byteLength}`,
    );
  }
  const out = new BigUint64Array(1);
  call('ab_wrap', memory, BigInt(flags), null, null, out);
  return new Tensor(key, new Memory(out[0], buffer));
}

