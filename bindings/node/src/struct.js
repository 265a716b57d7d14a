import { structs } from './abi.js';

const little = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/**
 * A struct of the C ABI in memory of its own, whose fields are read and written by name. Calls take the
 * memory itself, not its address, so that it is not collected under them.
 */
export class Struct {
  /**
   * @param {string} name
   * @param {ArrayBuffer} [memory]  one that lies elsewhere
   */
  constructor(name, memory) {
    const { size, fields } = structs[name];
    this.fields = fields;
    this.memory = memory ?? new ArrayBuffer(size);
    this.view = new DataView(this.memory);
    if ('struct_size' in fields) {
      this.view.setUint32(0, size, little);
    }
  }

  get(name) {
    const [offset, size, type] = this.fields[name];
    switch (type) {
      case 'uint8':
        return this.view.getUint8(offset);
      case 'uint16':
        return this.view.getUint16(offset, little);
      case 'int32':
        return this.view.getInt32(offset, little);
      case 'uint32':
        return this.view.getUint32(offset, little);
      case 'int64':
        return this.view.getBigInt64(offset, little);
      case 'text': {
        const bytes = Buffer.from(this.memory, offset, size);
        return bytes.toString('utf8', 0, bytes.indexOf(0));
      }
      default:
        return this.view.getBigUint64(offset, little);
    }
  }

  set(name, value) {
    const [offset, , type] = this.fields[name];
    switch (type) {
      case 'uint8':
        return this.view.setUint8(offset, value);
      case 'uint16':
        return this.view.setUint16(offset, value, little);
      case 'int32':
        return this.view.setInt32(offset, value, little);
      case 'uint32':
        return this.view.setUint32(offset, value, little);
      case 'int64':
        return this.view.setBigInt64(offset, BigInt(value), little);
      default:
        return this.view.setBigUint64(offset, BigInt(value), little);
    }
  }

  /** As a number, where it is one exactly; for sizes, which are. */
  number(name) {
    return Number(this.get(name));
  }
}
