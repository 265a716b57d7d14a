package org.arraybridge;

import java.nio.ByteBuffer;
import java.util.Set;

/**
 * What a tensor is.
 *
 * @param flags what it is like
 * @param device where it is
 * @param dtype of its elements
 * @param ndim number of axes
 * @param numElements product of the extents
 * @param numBytes bytes of the elements
 * @param beginOffset bytes from data: every element lies between this
 * @param endOffset and this
 * @param alignment largest power of two up to 4096 that divides the first element's address
 * @param acceptedBy who takes it without a copy as it stands
 */
public record TensorInfo(
        Set<TensorFlag> flags,
        Device device,
        DataType dtype,
        int ndim,
        long numElements,
        long numBytes,
        long beginOffset,
        long endOffset,
        int alignment,
        Set<Consumer> acceptedBy) {

    static TensorInfo read(ByteBuffer memory) {
        int at = Scratch.INFO;
        return new TensorInfo(
                TensorFlag.of(memory.getInt(at + Abi.AbTensorInfo.FLAGS)),
                new Device(
                        memory.getInt(at + Abi.AbTensorInfo.DEVICE_DEVICE_TYPE),
                        memory.getInt(at + Abi.AbTensorInfo.DEVICE_DEVICE_ID)),
                DataType.read(memory, at + Abi.AbTensorInfo.DTYPE_CODE),
                memory.getInt(at + Abi.AbTensorInfo.NDIM),
                memory.getLong(at + Abi.AbTensorInfo.NUM_ELEMENTS),
                memory.getLong(at + Abi.AbTensorInfo.NUM_BYTES),
                memory.getLong(at + Abi.AbTensorInfo.BEGIN_OFFSET),
                memory.getLong(at + Abi.AbTensorInfo.END_OFFSET),
                memory.getInt(at + Abi.AbTensorInfo.ALIGNMENT),
                Consumer.of(memory.getInt(at + Abi.AbTensorInfo.ACCEPTED_BY)));
    }
}
