// Names for the constants of the C ABI: AB_CAST_SAME_KIND is 'same_kind', kDLOpenCL is 'opencl'.
import { constants } from './abi.js';

function table(prefix) {
  const names = new Map();
  for (const [name, value] of Object.entries(constants)) {
    if (name.startsWith(prefix)) {
      names.set(name.slice(prefix.length).toLowerCase(), value);
    }
  }
  return names;
}

export const copies = table('AB_COPY_');
export const layouts = table('AB_LAYOUT_');
export const castings = table('AB_CAST_');
export const routes = table('AB_ROUTE_');
export const reasons = table('AB_REASON_');
export const consumers = table('AB_CONSUMER_');
export const tensorFlags = table('AB_TENSOR_');
// Device types come first in the enums of dlpack.h, and codes of dtypes from kDLInt on.
const dlpack = [...table('kDL')];
export const devices = new Map(dlpack.slice(0, dlpack.findIndex(([name]) => name === 'int')));

export function value(names, name, field) {
  const found = names.get(String(name).toLowerCase());
  if (found === undefined) {
    throw new TypeError(`${field} is ${name}: expected one of ${[...names.keys()].join(', ')}`);
  }
  return found;
}

export function name(names, value) {
  for (const [name, known] of names) {
    if (known === value) {
      return name;
    }
  }
  return value;
}

export function mask(names, list, field) {
  return [...list].reduce((bits, name) => bits | value(names, name, field), 0);
}

export function list(names, bits) {
  return [...names].filter(([, bit]) => bits & bit).map(([name]) => name);
}
