// What TypeScript makes of the package: compiled, never run.
import { ArraybridgeError, Tensor, wrap, type Options, type Report } from 'arraybridge';

const options: Options = { dtype: 'float32', layout: 'c', consumers: ['numpy', 'jax'], device: { type: 'cpu' } };
const tensor: Tensor = wrap(new Float32Array(6), { shape: [2, 3n], strides: [3, 1] }).convert(options);
const report: Report | null = tensor.report;
const sum: number = tensor.shape.reduce((a, b) => a + b) + (report?.passes ?? 0);
const later: Promise<Report> = tensor.copyIntoAsync(wrap(Buffer.alloc(24)), { casting: 'exact' });
// @ts-expect-error: no such layout
tensor.convert({ layout: 'diagonal' });
// @ts-expect-error: tensors are made by functions
new Tensor();
try {
  tensor.convert();
} catch (error) {
  if (error instanceof ArraybridgeError) {
    const code: string = error.code;
    console.log(code, sum, later);
  }
}
