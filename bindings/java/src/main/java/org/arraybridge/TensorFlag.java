package org.arraybridge;

import java.util.EnumSet;
import java.util.Set;

/** What a tensor is like. */
public enum TensorFlag {
    /** Compact row-major; size-1 axes and empty tensors never disqualify. */
    C_CONTIGUOUS(Abi.AB_TENSOR_C_CONTIGUOUS),
    /** Compact column-major. */
    F_CONTIGUOUS(Abi.AB_TENSOR_F_CONTIGUOUS),
    /** Compact under some axis permutation: no gap, no overlap. */
    DENSE(Abi.AB_TENSOR_DENSE),
    /** A stride of 0 on an axis longer than 1. */
    BROADCAST(Abi.AB_TENSOR_BROADCAST),
    /** A negative stride on an axis longer than 1. */
    NEGATIVE_STRIDE(Abi.AB_TENSOR_NEGATIVE_STRIDE),
    /** Two indices may share an element (broadcast included). */
    OVERLAPPING(Abi.AB_TENSOR_OVERLAPPING),
    /** Some axis is 0. */
    EMPTY(Abi.AB_TENSOR_EMPTY),
    /** It must not be written to. */
    READ_ONLY(Abi.AB_TENSOR_READ_ONLY),
    /** Elements of less than a byte share bytes with their neighbours. */
    SUBBYTE_PACKED(Abi.AB_TENSOR_SUBBYTE_PACKED),
    /** By its declared device type, which is 1, 3, 11 or 13. */
    HOST_READABLE(Abi.AB_TENSOR_HOST_READABLE),
    /** data is a handle (device types 4, 7, 8, 15): never do arithmetic on it. */
    OPAQUE_HANDLE(Abi.AB_TENSOR_OPAQUE_HANDLE),
    /** Not aligned to its own element size (to the largest power of two in it). */
    MISALIGNED(Abi.AB_TENSOR_MISALIGNED);

    final int value;

    TensorFlag(int value) {
        this.value = value;
    }

    /** Those whose bits are set. */
    static Set<TensorFlag> of(int bits) {
        Set<TensorFlag> found = EnumSet.noneOf(TensorFlag.class);
        for (TensorFlag known : values()) {
            if ((bits & known.value) != 0) {
                found.add(known);
            }
        }
        return found;
    }
}
