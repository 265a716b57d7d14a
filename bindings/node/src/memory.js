import koffi from 'koffi';
import { markAsUntransferable } from 'node:worker_threads';

import { ClosedError } from './error.js';
import { library } from './library.js';

/**
 * A managed tensor of the C ABI and what must live as long as it: the JavaScript memory that it shares,
 * and whoever looks at its own memory. It is deleted once it is closed, no call uses it, and no
 * ArrayBuffer over its memory can be reached.
 */
export class Memory {
  /**
   * @param {bigint} pointer  a DLManagedTensorVersioned, which is taken over
   * @param {ArrayBuffer|SharedArrayBuffer|null} array  whose memory it is; null: not JavaScript's
   */
  constructor(pointer, array) {
    this.pointer = pointer;
    this.array = array;
    this.length = array?.byteLength;
    this.uses = 0;
    this.state = 'open';
    this.looks = { count: 0, memory: this, buffer: undefined };
  }

  enter() {
    if (this.state !== 'open') {
      throw new ClosedError(`the tensor is ${this.state}`);
    }
    if (this.array && this.array.byteLength !== this.length) {
      throw new TypeError(`the tensor's ArrayBuffer has ${this.array.byteLength} bytes now, not ${this.length}`);
    }
    this.uses += 1;
    return this.pointer;
  }

  leave() {
    this.uses -= 1;
    this.drop();
  }

  close(state) {
    if (this.state === 'open') {
      this.state = state;
      this.drop();
    }
  }

  drop() {
    if (this.state !== 'open' && this.uses === 0 && this.looks.count === 0 && this.pointer) {
      const pointer = this.pointer;
      this.forget();
      library().ab_release(pointer);
    }
  }

  /** What `close` does where the native tensor belongs to someone else now. */
  forget() {
    this.pointer = 0n;
    this.array = null;
  }

  /** An ArrayBuffer over native memory, which stays until nobody can reach it. */
  look(address, size) {
    const known = this.looks.buffer?.deref();
    if (known && this.looks.address === address && known.byteLength === size) {
      return known;
    }
    const buffer = koffi.view(address, size);
    // Another thread's copy would not be seen here.
    markAsUntransferable(buffer);
    this.looks.count += 1;
    this.looks.buffer = new WeakRef(buffer);
    this.looks.address = address;
    looked.register(buffer, this.looks);
    return buffer;
  }

  /** Another tensor shares the memory now: it answers for those who look at it. */
  handOver(other) {
    other.looks = this.looks;
    other.looks.memory = other;
    this.looks = { count: 0, memory: this, buffer: undefined };
  }
}

const looked = new FinalizationRegistry((looks) => {
  looks.count -= 1;
  looks.memory.drop();
});
