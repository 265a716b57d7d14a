import { wrap } from 'arraybridge';

// A picture of height 2 and width 4 with three channels, taken as channels x height x width: no copy.
const pixels = Uint8Array.from({ length: 24 }, (_, index) => index);
// [readme]
const picture = wrap(pixels, { shape: [3, 2, 4], strides: [1, 12, 3] });
const planes = picture.copy({ dtype: 'float32', layout: 'c' }); // one pass
console.log(String(planes.report), planes.typedArray().subarray(0, 4));
const half = planes.convert({ dtype: 'float16', consumers: ['numpy', 'jax'] }); // takes planes over
console.log(half, half.detect().acceptedBy.includes('jax'));
// [/readme]
half.close(); // or leave it to the garbage collector

// Into memory of JavaScript, transposed and cast on the way.
const mine = new Float64Array(24);
picture.copyInto(wrap(mine, { shape: [3, 2, 4] }));
console.log(mine.subarray(0, 4));

try {
  picture.convert({ dtype: 'float32', copy: 'never' });
} catch (error) {
  console.log(error.code, error.message);
}
