package org.arraybridge;

import java.lang.foreign.MemorySegment;

/** Memory segments in and out, from Java 22 on. They may have more bytes than a buffer. */
public final class Segments {
    private Segments() {}

    /** A tensor over all bytes of a native segment, whatever their meaning. */
    public static Tensor wrap(MemorySegment segment) {
        return wrap(segment, Dims.of(segment.byteSize()));
    }

    /**
     * A tensor over a native segment's memory. While the tensor is open, the segment's arena must stay so:
     * afterwards the tensor throws IllegalStateException.
     *
     * @throws IllegalArgumentException if the segment is on the heap, or if elements would lie outside of it
     */
    public static Tensor wrap(MemorySegment segment, Dims dims) {
        if (!segment.isNative()) {
            throw new IllegalArgumentException(
                    "segment is on the heap, where memory moves: Arena.allocate makes one that is not");
        }
        return Tensor.wrap(
                segment.address(),
                segment.byteSize(),
                "uint8",
                dims,
                segment.isReadOnly(),
                segment,
                segment.scope()::isAlive);
    }

    /**
     * The tensor's own memory, row-major on the host; read-only if the tensor is. It stays valid after the
     * tensor is closed.
     */
    public static MemorySegment segment(Tensor tensor) {
        boolean readOnly = tensor.detect().flags().contains(TensorFlag.READ_ONLY);
        return tensor.view(
                (address, size) -> {
                    if (size == 0) {
                        return MemorySegment.NULL;
                    }
                    MemorySegment segment = FfmBackend.segment(address, size, tensor.look());
                    return readOnly ? segment.asReadOnly() : segment;
                });
    }
}
