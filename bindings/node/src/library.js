import koffi from 'koffi';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { constants, functions } from './abi.js';
import { ArraybridgeError, LoadError } from './error.js';
import { Struct } from './struct.js';

const types = { pointer: 'void *', string: 'const char *', void: 'void' };
const type = (kind) => types[kind] ?? `${kind}_t`;

let loaded;

/** The functions of the C ABI by name; loads the library at the first call. */
export function library() {
  return (loaded ??= load());
}

/** The file or name that was loaded. */
export function libraryPath() {
  return library().path;
}

/** "MAJOR.MINOR.PATCH" of the native library. */
export function version() {
  return library().ab_version();
}

function* places() {
  if (process.env.ARRAYBRIDGE_LIBRARY) {
    // Who names one wants that one or an error.
    yield [process.env.ARRAYBRIDGE_LIBRARY, 'ARRAYBRIDGE_LIBRARY'];
    return;
  }
  const own = fileURLToPath(new URL('../native/libarraybridge.so', import.meta.url));
  yield [own, 'the package'];
  yield [`libarraybridge.so.${constants.AB_ABI_MAJOR}`, 'the system'];
  yield ['libarraybridge.so', 'the system'];
}

function load() {
  const tried = [];
  for (const [path, place] of places()) {
    if (place === 'the package' && !existsSync(path)) {
      tried.push(`${path} (${place}): no such file`);
      continue;
    }
    try {
      return open(path);
    } catch (error) {
      tried.push(`${path} (${place}): ${error.message}`);
    }
  }
  throw new LoadError(
    `no usable libarraybridge.so:\n  ${tried.join('\n  ')}\n` +
      'Set ARRAYBRIDGE_LIBRARY to its path, or install it where the system looks for libraries.',
  );
}

function open(path) {
  const handle = koffi.load(path);
  const { AB_ABI_MAJOR: major, AB_ABI_MINOR: minor } = constants;
  const found = handle.func('ab_abi_version', 'uint32_t', [])();
  if (found >>> 16 !== major || (found & 0xffff) < minor) {
    throw new Error(
      `its ABI is ${found >>> 16}.${found & 0xffff}, and this package needs ${major}.${minor} or a later ${major}`,
    );
  }
  const library = { path };
  for (const [name, [result, parameters]] of Object.entries(functions)) {
    library[name] = handle.func(name, type(result), parameters.map(type));
  }
  return library;
}

/** @param {number} status  @param {Struct} error */
export function check(status, error) {
  if (status !== constants.AB_OK) {
    const code = library().ab_status_name(status);
    throw new ArraybridgeError(error.get('message') || code, status, code, error.get('native_code'));
  }
}

// Of the calls of this thread, which are over before the next begins.
const error = new Struct('ab_error');

/** Calls a function whose last argument is an ab_error. */
export function call(name, ...parameters) {
  check(library()[name](...parameters, error.memory), error);
}

// What calls of other threads use, which nobody else may refer to meanwhile.
const held = new Set();

/** The same on another thread. */
export function callAsync(name, ...parameters) {
  const error = new Struct('ab_error');
  return new Promise((resolve, reject) => {
    held.add(parameters);
    library()[name].async(...parameters, error.memory, (failure, status) => {
      held.delete(parameters);
      try {
        if (failure) {
          throw failure;
        }
        check(status, error);
        resolve();
      } catch (reason) {
        reject(reason);
      }
    });
  });
}

/** A text that a function writes as snprintf does. */
export function text(name, struct) {
  const buffer = Buffer.alloc(128);
  const length = Number(library()[name](struct.memory, buffer, buffer.length));
  if (length < buffer.length) {
    return buffer.toString('utf8', 0, length);
  }
  const whole = Buffer.alloc(length + 1);
  library()[name](struct.memory, whole, whole.length);
  return whole.toString('utf8', 0, length);
}
