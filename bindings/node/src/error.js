/** What the native library refused or failed at. */
export class ArraybridgeError extends Error {
  /**
   * @param {string} message  names the field, its value, and what would have worked
   * @param {number} status  one of the negative AB_E_*
   * @param {string} code  the status's name, "AB_E_COPY_REQUIRED"
   * @param {bigint} nativeCode  the driver's own error number, or 0n
   */
  constructor(message, status, code, nativeCode) {
    super(message);
    this.name = 'ArraybridgeError';
    this.status = status;
    this.code = code;
    this.nativeCode = nativeCode;
  }
}

/** A tensor was used after close(), or after convert() or toDLPack() had taken it. */
export class ClosedError extends Error {
  constructor(message) {
    super(message);
    this.name = 'ClosedError';
    this.code = 'ERR_ARRAYBRIDGE_CLOSED';
  }
}

/** There is no shared library, or it is not one for this package. */
export class LoadError extends Error {
  constructor(message) {
    super(message);
    this.name = 'LoadError';
    this.code = 'ERR_ARRAYBRIDGE_LOAD';
  }
}
