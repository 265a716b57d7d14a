package org.arraybridge;

import java.util.EnumSet;
import java.util.Set;

/** Importers whose rules the library knows. */
public enum Consumer {
    /** numpy.from_dlpack. */
    NUMPY(Abi.AB_CONSUMER_NUMPY),
    /** torch.from_dlpack. */
    TORCH(Abi.AB_CONSUMER_TORCH),
    /** jax.dlpack.from_dlpack. */
    JAX(Abi.AB_CONSUMER_JAX),
    /** tf.experimental.dlpack.from_dlpack. */
    TENSORFLOW(Abi.AB_CONSUMER_TENSORFLOW),
    /** cupy.from_dlpack. */
    CUPY(Abi.AB_CONSUMER_CUPY),
    /** numba.cuda.as_cuda_array. */
    NUMBA(Abi.AB_CONSUMER_NUMBA),
    /** pyclesperanto's OpenCL arrays. */
    PYCLESPERANTO(Abi.AB_CONSUMER_PYCLESPERANTO),
    /** paddle.utils.dlpack.from_dlpack. */
    PADDLE(Abi.AB_CONSUMER_PADDLE),
    /** mlx.core.array, which copies whatever it takes: its bit says that it takes the tensor. */
    MLX(Abi.AB_CONSUMER_MLX),
    /** tvm_ffi.from_dlpack. */
    TVM_FFI(Abi.AB_CONSUMER_TVM_FFI);

    final int value;

    Consumer(int value) {
        this.value = value;
    }

    /** Those whose bits are set. */
    static Set<Consumer> of(int bits) {
        Set<Consumer> found = EnumSet.noneOf(Consumer.class);
        for (Consumer known : values()) {
            if ((bits & known.value) != 0) {
                found.add(known);
            }
        }
        return found;
    }
}
