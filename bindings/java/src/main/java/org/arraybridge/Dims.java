package org.arraybridge;

/** How memory is read as a tensor. Not for several threads at once. */
public final class Dims {
    final long[] shape;
    long[] strides;
    DataType dtype;
    long byteOffset;
    boolean readOnly;
    boolean padded;

    private Dims(long[] shape) {
        if (shape.length > Scratch.MOST_AXES) {
            throw new IllegalArgumentException("shape has " + shape.length + " axes: expected 64 at most");
        }
        this.shape = shape.clone();
    }

    /** The extents of the axes; none: a single element. */
    public static Dims of(long... shape) {
        return new Dims(shape);
    }

    /** Steps between elements, in elements; negative and zero are allowed. Not set: row-major. */
    public Dims strides(long... strides) {
        if (strides.length != shape.length) {
            throw new IllegalArgumentException("strides has " + strides.length + " axes and shape " + shape.length);
        }
        this.strides = strides.clone();
        return this;
    }

    /** Not set: that of the buffer, bytes of a ByteBuffer or MemorySegment. */
    public Dims dtype(DataType dtype) {
        this.dtype = dtype;
        return this;
    }

    /** The dtype by its name. */
    public Dims dtype(String name) {
        return dtype(DataType.of(name));
    }

    /** Bytes from the memory's beginning to the first element. */
    public Dims byteOffset(long bytes) {
        this.byteOffset = bytes;
        return this;
    }

    /** Nobody writes to it through the tensor; read-only buffers are so anyway. */
    public Dims readOnly() {
        this.readOnly = true;
        return this;
    }

    /** Elements of less than a byte take a byte each. */
    public Dims padded() {
        this.padded = true;
        return this;
    }
}
