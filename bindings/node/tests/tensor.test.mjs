import assert from 'node:assert';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

import {
  ArraybridgeError,
  ClosedError,
  Tensor,
  backends,
  constants,
  devices,
  formatDtype,
  libraryPath,
  parseDtype,
  version,
  wrap,
} from 'arraybridge';

const numbers = (length, Array = Float32Array) => Array.from({ length }, (_, index) => index);

async function collected(what) {
  for (let round = 0; round < 50 && what(); round++) {
    globalThis.gc();
    await setImmediate();
  }
}

test('a wrapped array is shared, not copied', () => {
  const array = numbers(6);
  const shared = wrap(array, { shape: [2, 3] }).convert();
  assert.deepStrictEqual(shared.shape, [2, 3]);
  assert.deepStrictEqual(shared.strides, [3, 1]);
  assert.strictEqual(shared.report.route, 'zero_copy');
  assert.ok(shared.report.zeroCopy && !shared.copied);
  const view = shared.typedArray();
  assert.strictEqual(view.buffer, array.buffer);
  view[5] = 50;
  assert.strictEqual(array[5], 50);
});

test('every kind of memory can be wrapped', () => {
  const dtypes = {
    int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array,
    uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, float32: Float32Array, float64: Float64Array,
  };
  for (const [dtype, Array] of Object.entries(dtypes)) {
    const array = new Array(3);
    array[1] = dtype.endsWith('64') && dtype !== 'float64' ? 7n : 7;
    const copy = wrap(array).copy();
    assert.strictEqual(copy.dtype, dtype);
    assert.deepStrictEqual(copy.typedArray(), array);
    assert.notStrictEqual(copy.typedArray().buffer, array.buffer);
  }
  const bytes = Buffer.from('pooled');
  assert.strictEqual(String.fromCharCode(...wrap(bytes).copy().typedArray()), 'pooled');
  assert.strictEqual(wrap(new Uint8ClampedArray(2)).dtype, 'uint8');
  assert.deepStrictEqual(wrap(new DataView(new ArrayBuffer(4), 1)).shape, [3]);
  const shared = new Int16Array(new SharedArrayBuffer(8));
  wrap(Int16Array.of(1, 2, 3, 4)).copyInto(wrap(shared));
  assert.deepStrictEqual([...shared], [1, 2, 3, 4]);
  const part = numbers(10).subarray(4, 7);
  assert.deepStrictEqual([...wrap(part).convert().typedArray()], [4, 5, 6]);
  assert.deepStrictEqual([...wrap(new Float32Array(0)).convert().typedArray()], []);
  assert.deepStrictEqual(wrap(numbers(1), { shape: [] }).convert().shape, []);
});

test('convert casts and transposes in one pass', () => {
  const result = wrap(numbers(6, Uint16Array), { shape: [3, 2], strides: [1, 3] }).convert({ dtype: 'float64', layout: 'c' });
  assert.deepStrictEqual([...result.typedArray()], [0, 3, 1, 4, 2, 5]);
  assert.ok(result.copied);
  assert.deepStrictEqual(result.report.reasons, ['dtype', 'layout']);
  assert.strictEqual(String(result.report), 'host, 1 pass, 12 B read, 48 B written (dtype, layout)');
});

test('plan says what convert does', () => {
  const tensor = wrap(numbers(6, Int32Array));
  const plan = tensor.plan({ dtype: 'int8', saturate: true });
  const done = tensor.convert({ dtype: 'int8', saturate: true }).report;
  for (const field of ['route', 'reasons', 'passes', 'bytesRead', 'bytesWritten', 'scratchBytes']) {
    assert.deepStrictEqual(plan[field], done[field]);
  }
  assert.strictEqual(plan.nanoseconds, 0);
});

test('detect describes', () => {
  const info = wrap(numbers(6), { shape: [2, 3], readOnly: true }).detect();
  assert.ok(['c_contiguous', 'dense', 'read_only', 'host_readable'].every((flag) => info.flags.includes(flag)));
  assert.deepStrictEqual(info.device, { type: 'cpu', id: 0 });
  assert.deepStrictEqual([info.dtype, info.ndim, info.numElements, info.numBytes], ['float32', 2, 6, 24]);
  assert.ok(info.acceptedBy.includes('numpy') && !info.acceptedBy.includes('torch'));
});

test('failures are errors with the library’s message', () => {
  const tensor = wrap(numbers(6));
  const refused = (code, message) => (error) => {
    assert.ok(error instanceof ArraybridgeError && error instanceof Error);
    assert.strictEqual(error.code, code);
    assert.strictEqual(error.status, constants[code]);
    assert.strictEqual(error.nativeCode, 0n);
    assert.match(error.message, message);
    return true;
  };
  assert.throws(() => tensor.convert({ dtype: 'int8', copy: 'never' }), refused('AB_E_COPY_REQUIRED', /float32 to int8/));
  assert.throws(() => tensor.copyInto(wrap(numbers(5))), refused('AB_E_INVALID_ARGUMENT', /shape/));
  assert.throws(() => tensor.copy({ dtype: { code: 99, bits: 8 } }), refused('AB_E_UNSUPPORTED_DTYPE', /99/));
  assert.throws(() => parseDtype('flot32'), refused('AB_E_UNSUPPORTED_DTYPE', /flot32/));
  assert.throws(() => wrap(numbers(2), { shape: [-3] }), refused('AB_E_INVALID_TENSOR', /-3/));
  assert.throws(() => tensor.copyInto(wrap(numbers(6), { readOnly: true })), refused('AB_E_READ_ONLY', /READ_ONLY/));
  assert.throws(() => tensor.copyInto(tensor), refused('AB_E_OVERLAP', /overlap/));
  assert.throws(() => wrap(Float32Array.of(0.5)).copy({ dtype: 'int8', casting: 'exact' }), refused('AB_E_LOSSY', /./));
  assert.throws(() => tensor.convert({ device: { type: 'metal' } }), refused('AB_E_UNSUPPORTED_DEVICE', /./));
  // It is as it was.
  assert.deepStrictEqual([...tensor.convert().typedArray()], [0, 1, 2, 3, 4, 5]);
});

test('wrong arguments are JavaScript’s own errors', () => {
  const array = numbers(6);
  assert.throws(() => wrap(array, { shape: [7] }), /RangeError: the elements lie in bytes 0 to 28 of an array of 24/);
  assert.throws(() => wrap(array, { shape: [2], strides: [-1] }), RangeError);
  assert.throws(() => wrap(array, { shape: [2], byteOffset: 20 }), RangeError);
  assert.throws(() => wrap(array.subarray(1), { shape: [6] }), RangeError);
  assert.throws(() => wrap(array, { shape: [2], strides: [1, 1] }), RangeError);
  assert.throws(() => wrap(array, { dtype: 'int8' }), TypeError);
  assert.throws(() => wrap([1, 2]), TypeError);
  assert.throws(() => wrap(array).convert({ dtipe: 'int8' }), /there is no option dtipe/);
  assert.throws(() => wrap(array).convert({ layout: 'diagonal' }), /layout is diagonal: expected one of any, c, f, keep/);
  assert.throws(() => wrap(array).copyInto(array), /wrap\(\) the array first/);
  assert.throws(() => wrap(array, { shape: [2], strides: [2] }).typedArray(), /convert/);
  assert.throws(() => wrap(array, { readOnly: true }).typedArray(), /read-only/);
  assert.throws(() => new Tensor(), TypeError);
  assert.throws(() => Tensor.fromDLPack(0n), TypeError);
});

test('a closed tensor throws, whatever is asked', async () => {
  const closed = wrap(numbers(6));
  closed.close();
  closed.close();
  assert.ok(closed.closed);
  const taken = wrap(numbers(6));
  const rest = taken.convert();
  for (const tensor of [closed, taken]) {
    for (const use of [
      () => tensor.detect(), () => tensor.convert(), () => tensor.copy(), () => tensor.copyInto(rest),
      () => rest.copyInto(tensor), () => tensor.plan(), () => tensor.typedArray(), () => tensor.toDLPack(),
      () => tensor.shape, () => tensor.strides, () => tensor.dtype, () => tensor.device, () => tensor.readOnly,
      () => tensor.copied, () => tensor.pointer, () => tensor.dataType,
    ]) {
      assert.throws(use, ClosedError);
    }
    await assert.rejects(tensor.copyAsync(), ClosedError);
    await assert.rejects(tensor.convertAsync(), ClosedError);
  }
  assert.throws(() => taken.detect(), /taken over by convert/);
});

test('arrays outlive the tensors whose memory they are', async () => {
  const tensor = wrap(numbers(1000)).copy();
  const view = tensor.typedArray();
  const again = tensor.typedArray();
  assert.strictEqual(view.buffer, again.buffer);
  // A cast frees its source, but not while someone looks at it.
  const other = tensor.convert({ dtype: 'float64' });
  assert.deepStrictEqual([...other.typedArray()], [...view]);
  const shared = wrap(numbers(1000)).copy();
  const before = shared.typedArray();
  const after = shared.convert();
  assert.ok(after.report.zeroCopy);
  after.close();
  for (let round = 0; round < 20; round++) {
    wrap(new Float32Array(1000).fill(-1)).copy().close();
  }
  await collected(() => false);
  assert.deepStrictEqual([...view], [...numbers(1000)]);
  assert.deepStrictEqual([...before], [...numbers(1000)]);
});

test('what nobody can reach is freed', async () => {
  const megabytes = 16;
  const many = 100;
  for (let round = 0; round < many; round++) {
    wrap(new Uint8Array(1)).copy().typedArray();
    const big = wrap(new Uint8Array(megabytes << 20)).copy();
    assert.strictEqual(big.typedArray().length, megabytes << 20);
    big.close();
    if (round % 4 === 0) {
      globalThis.gc();
      await setImmediate();
    }
  }
  await collected(() => process.memoryUsage().rss > (many * megabytes << 20) / 4);
  assert.ok(process.memoryUsage().rss < (many * megabytes << 20) / 4);
});

test('memory that went away is noticed', () => {
  const array = numbers(6);
  const tensor = wrap(array);
  structuredClone(array.buffer, { transfer: [array.buffer] });
  assert.throws(() => tensor.detect(), /its|bytes now/);
  if (ArrayBuffer.prototype.resize) {
    assert.throws(() => wrap(new Uint8Array(new ArrayBuffer(4, { maxByteLength: 8 }))), /resizable/);
  }
});

test('a tensor is handed out and taken in again', () => {
  const tensor = wrap(numbers(6), { shape: [2, 3] }).copy();
  const pointer = tensor.toDLPack();
  assert.throws(() => tensor.detect(), ClosedError);
  const other = Tensor.fromDLPack(pointer);
  assert.deepStrictEqual(other.shape, [2, 3]);
  assert.deepStrictEqual([...other.typedArray()], [0, 1, 2, 3, 4, 5]);
  assert.throws(() => other.toDLPack(), /looked at/);
  assert.throws(() => wrap(numbers(6)).toDLPack(), /copy\(\)/);
});

test('asynchronous calls leave the event loop alone', async () => {
  const source = wrap(numbers(1 << 20));
  const copies = await Promise.all(Array.from({ length: 8 }, () => source.copyAsync({ dtype: 'float64' })));
  assert.ok(copies.every((copy) => copy.typedArray()[1000] === 1000));
  const into = new Float64Array(1 << 20);
  const destination = wrap(into);
  const running = source.copyIntoAsync(destination);
  assert.throws(() => source.convert(), /in use/);
  assert.throws(() => destination.toDLPack(), /JavaScript/);
  source.close(); // waits for the call
  assert.strictEqual((await running).passes, 1);
  assert.strictEqual(into[5000], 5000);
  await assert.rejects(source.copyAsync(), ClosedError);
  const converting = copies[0].convertAsync({ dtype: 'int32' });
  assert.throws(() => copies[0].detect(), ClosedError);
  assert.strictEqual((await converting).typedArray()[77], 77);
  await assert.rejects(copies[1].convertAsync({ dtype: 'int8', copy: 'never' }), { code: 'AB_E_COPY_REQUIRED' });
  assert.strictEqual(copies[1].typedArray()[77], 77); // it is as it was
});

test('workers use it at once', async () => {
  const shared = new Float32Array(new SharedArrayBuffer(4 * 4000));
  const code = `
    import { parentPort, workerData } from 'node:worker_threads';
    import { wrap } from 'arraybridge';
    const { shared, index } = workerData;
    const mine = Int16Array.from({ length: 1000 }, (_, element) => element + index);
    for (let round = 0; round < 50; round++) {
      wrap(mine).copyInto(wrap(shared.subarray(1000 * index, 1000 * (index + 1))));
    }
    parentPort.postMessage('done');`;
  const file = join(import.meta.dirname, 'worker.tmp.mjs');
  writeFileSync(file, code);
  try {
    await Promise.all(
      [0, 1, 2, 3].map((index) => new Promise((resolve, reject) => {
        const worker = new Worker(file, { workerData: { shared, index } });
        worker.on('error', reject);
        worker.on('exit', resolve);
      })),
    );
  } finally {
    rmSync(file);
  }
  for (let index = 0; index < 4; index++) {
    assert.strictEqual(shared[1000 * index + 999], 999 + index);
  }
});

test('devices are used where there are any', (context) => {
  assert.deepStrictEqual(backends()[0].name, 'host');
  const device = devices().find(({ type }) => type === 'opencl');
  if (!device) {
    context.skip('no OpenCL device is here');
    return;
  }
  const there = wrap(numbers(6)).convert({ device });
  assert.strictEqual(there.report.route, 'upload');
  assert.throws(() => there.typedArray(), /device/);
  const back = there.convert({ device: { type: 'cpu' }, dtype: 'int32' });
  assert.deepStrictEqual([...back.typedArray()], [0, 1, 2, 3, 4, 5]);
});

test('names of dtypes', () => {
  assert.deepStrictEqual({ ...parseDtype('bfloat16') }, { code: constants.kDLBfloat, bits: 16, lanes: 1 });
  assert.strictEqual(formatDtype({ code: constants.kDLFloat, bits: 32, lanes: 4 }), 'float32x4');
  assert.throws(() => parseDtype(5), TypeError);
  assert.match(version(), /^\d+\.\d+\.\d+$/);
});

test('what cannot be loaded is named', () => {
  if (!process.env.ARRAYBRIDGE_LIBRARY) {
    assert.match(libraryPath(), /arraybridge\/native\/libarraybridge\.so$/);
  }
  const script = "import { version } from 'arraybridge'; try { version(); } catch (error) { console.log(error.name, error.message); }";
  const says = (path) =>
    spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: import.meta.dirname,
      env: { ...process.env, ARRAYBRIDGE_LIBRARY: path },
      encoding: 'utf8',
    }).stdout;
  assert.match(says('/nowhere/libarraybridge.so'), /^LoadError .*\n.*\/nowhere\/libarraybridge.so \(ARRAYBRIDGE_LIBRARY\): .*No such file/);
  const folder = mkdtempSync(join(tmpdir(), 'arraybridge-'));
  try {
    const other = join(folder, 'other.c');
    writeFileSync(other, '#include <stdint.h>\nuint32_t ab_abi_version(void) { return 2 << 16; }\n');
    const library = join(folder, 'libother.so');
    if (spawnSync('cc', ['-shared', '-fPIC', '-o', library, other]).status === 0) {
      assert.match(says(library), /its ABI is 2\.0, and this package needs 1\.0 or a later 1/);
    }
    const copy = join(folder, 'libcopy.so');
    copyFileSync(libraryPath(), copy);
    assert.strictEqual(says(copy), '');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
