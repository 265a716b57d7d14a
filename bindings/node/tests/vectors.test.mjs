// tests/vectors through this package: every cast, layout, spelling and casting rule. Writes how many
// passed to the file that ARRAYBRIDGE_RESULTS names.
import assert from 'node:assert';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { ArraybridgeError, formatDtype, parseDtype, wrap } from 'arraybridge';

const folder = process.env.ARRAYBRIDGE_VECTORS;
const json = (name) => JSON.parse(readFileSync(join(folder, name), 'utf8'));
const bytes = (name) => new Uint8Array(readFileSync(join(folder, name)));

const results = { binding: 'node', passed: 0, skipped: [], failed: 0 };
const failures = [];

function vector(name, body) {
  try {
    body();
    results.passed += 1;
  } catch (error) {
    results.failed += 1;
    if (failures.length < 20) {
      failures.push(`${name}: ${error.message}`);
    }
  }
}

function done(least, before) {
  assert.deepStrictEqual(failures.splice(0), []);
  assert.ok(results.passed - before >= least, `only ${results.passed - before} vectors`);
}

function copyInto(source, destination, options) {
  try {
    source.copyInto(destination, options);
    return 'AB_OK';
  } catch (error) {
    if (error instanceof ArraybridgeError) {
      return error.code;
    }
    throw error;
  }
}

after(() => {
  if (process.env.ARRAYBRIDGE_RESULTS) {
    writeFileSync(process.env.ARRAYBRIDGE_RESULTS, `${JSON.stringify(results)}\n`);
  }
});

const casts = json('casts.json');
const data = bytes('casts.bin');
const source = (from) => {
  const { offset, count, itemsize } = casts.inputs[from];
  return { count, itemsize, input: data.slice(offset, offset + count * itemsize) };
};

test('casts', () => {
  const before = results.passed;
  for (const { from, to, offset, saturate_offset: saturated } of casts.casts) {
    vector(`${from} to ${to}`, () => {
      const { count, input } = source(from);
      const { itemsize } = casts.inputs[to];
      // Forwards, backwards and with gaps: each goes through other loops.
      for (const [step, saturate] of [[1, false], [1, true], [-1, false], [2, true], [3, false]]) {
        const at = saturate ? saturated : offset;
        const spread = new Uint8Array(count * itemsize * 3).fill(0xa5);
        const first = step < 0 ? (count - 1) * itemsize : 0;
        const code = copyInto(
          wrap(input, { dtype: from, shape: [count], subbytePadded: true }),
          wrap(spread, { dtype: to, shape: [count], strides: [step], byteOffset: first, subbytePadded: true }),
          { saturate },
        );
        assert.strictEqual(code, 'AB_OK');
        for (let element = 0; element < count; element++) {
          const place = first + element * step * itemsize;
          const want = at + element * itemsize;
          for (let byte = 0; byte < itemsize; byte++) {
            if (spread[place + byte] !== data[want + byte]) {
              assert.fail(`element ${element}, saturate ${saturate}, step ${step}`);
            }
          }
        }
      }
    });
  }
  done(676, before);
});

test('exact casts', () => {
  const before = results.passed;
  for (const { from, to, exact_offset: exact } of casts.casts.filter(({ from, to }) => from !== to)) {
    vector(`exactly ${from} to ${to}`, () => {
      const { count, itemsize, input } = source(from);
      const room = wrap(new Uint8Array(16), { dtype: to, shape: [], subbytePadded: true });
      for (let element = 0; element < count; element++) {
        const value = wrap(input, { dtype: from, shape: [], byteOffset: element * itemsize, subbytePadded: true });
        const code = copyInto(value, room, { casting: 'exact' });
        value.close();
        assert.strictEqual(code, data[exact + element] ? 'AB_OK' : 'AB_E_LOSSY', `element ${element}`);
      }
    });
  }
  done(650, before);
});

test('layouts', () => {
  const before = results.passed;
  const contents = bytes('layouts.bin');
  for (const { name, from, to, shape, src, dst } of json('layouts.json')) {
    vector(name, () => {
      const side = (array, dtype, { strides, byte_offset: byteOffset, padded }) =>
        wrap(array, { dtype, shape, strides: strides?.map(BigInt), byteOffset, subbytePadded: padded });
      const input = contents.slice(src.offset, src.offset + src.size);
      const output = contents.slice(dst.before_offset, dst.before_offset + dst.size);
      assert.strictEqual(copyInto(side(input, from, src), side(output, to, dst)), 'AB_OK');
      assert.deepStrictEqual(output, contents.slice(dst.after_offset, dst.after_offset + dst.size));
    });
  }
  done(200, before);
});

test('spellings of dtypes', () => {
  const before = results.passed;
  for (const { text, refused, code, bits, lanes, name } of json('dtypes.json')) {
    vector(`"${text.slice(0, 40)}"`, () => {
      if (refused) {
        assert.throws(() => parseDtype(text), { code: 'AB_E_UNSUPPORTED_DTYPE' });
      } else {
        assert.deepStrictEqual({ ...parseDtype(text) }, { code, bits, lanes });
        assert.strictEqual(formatDtype({ code, bits, lanes }), name);
      }
    });
  }
  done(200, before);
});

test('casting rules', () => {
  const before = results.passed;
  const rules = json('can_cast.json');
  const dtypes = Object.keys(casts.inputs);
  for (const casting of ['safe', 'same_kind']) {
    const allowed = new Set(rules[casting].map(String));
    for (const from of dtypes) {
      for (const to of dtypes) {
        vector(`${casting} ${from} to ${to}`, () => {
          const side = (dtype) => wrap(new Uint8Array(16), { dtype, shape: [] });
          const want = allowed.has(String([from, to])) ? 'AB_OK' : 'AB_E_LOSSY';
          assert.strictEqual(copyInto(side(from), side(to), { casting }), want);
        });
      }
    }
  }
  done(1352, before);
});
