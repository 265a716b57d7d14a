export { constants } from './abi.js';
export { formatDtype, parseDtype } from './dtype.js';
export { ArraybridgeError, ClosedError, LoadError } from './error.js';
export { backends, devices } from './machine.js';
export { libraryPath, version } from './library.js';
export { Tensor, wrap } from './tensor.js';
