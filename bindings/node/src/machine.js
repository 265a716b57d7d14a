import { structs } from './abi.js';
import { call } from './library.js';
import * as names from './names.js';
import { Struct } from './struct.js';

/** Every entry that a function lists. */
function listed(name, struct) {
  const count = new BigUint64Array(1);
  call(name, null, null, 0n, count);
  const { size } = structs[struct];
  const room = Number(count[0]);
  const memory = new ArrayBuffer(size * room);
  if (room) {
    new Struct(struct, memory);
    call(name, null, memory, BigInt(room), count);
  }
  const found = Math.min(room, Number(count[0]));
  return Array.from({ length: found }, (_, index) => new Struct(struct, memory.slice(index * size, (index + 1) * size)));
}

export function backends() {
  return listed('ab_list_backends', 'ab_backend_info').map((backend) => ({
    name: backend.get('name'),
    available: backend.get('available') === 1,
    detail: backend.get('detail'),
  }));
}

export function devices() {
  return listed('ab_list_devices', 'ab_device_info').map((device) => ({
    type: names.name(names.devices, device.get('device.device_type')),
    id: device.get('device.device_id'),
    name: device.get('name'),
    backend: device.get('backend'),
    totalMemory: device.number('total_memory'),
    freeMemory: device.number('free_memory'),
  }));
}
