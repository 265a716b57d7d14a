package org.arraybridge;

import java.nio.ByteBuffer;

/** What a result must be. Nothing set: as the source, zero copy when possible. Not for several threads at once. */
public final class Options {
    private int flags;
    private Device device;
    private DataType dtype;
    private CopyMode copy = CopyMode.IF_NEEDED;
    private Layout layout = Layout.ANY;
    private Casting casting = Casting.UNSAFE;
    private int alignment;
    private int consumers;
    private long srcStream;
    private long dstStream;

    /** The device of the result; not set: the source's, or the nearest that all consumers take. */
    public Options device(Device device) {
        this.device = device;
        return this;
    }

    /** The dtype of the result; not set: the source's. */
    public Options dtype(DataType dtype) {
        this.dtype = dtype;
        return this;
    }

    /** The dtype of the result by its name. */
    public Options dtype(String name) {
        return dtype(DataType.of(name));
    }

    /** When to copy. */
    public Options copy(CopyMode copy) {
        this.copy = copy;
        return this;
    }

    /** The order of the elements. */
    public Options layout(Layout layout) {
        this.layout = layout;
        return this;
    }

    /** Which casts are allowed. */
    public Options casting(Casting casting) {
        this.casting = casting;
        return this;
    }

    /** Bytes, a power of two, that the first element's address must be a multiple of. */
    public Options alignment(int bytes) {
        this.alignment = bytes;
        return this;
    }

    /** Importers that must all take the result without a copy of their own. */
    public Options consumers(Consumer... consumers) {
        this.consumers = 0;
        for (Consumer consumer : consumers) {
            this.consumers |= consumer.value;
        }
        return this;
    }

    /** Numbers beyond the dtype's range become its limits. */
    public Options saturate() {
        flags |= Abi.AB_CONVERT_SATURATE;
        return this;
    }

    /** A read-only source is copied. */
    public Options writable() {
        flags |= Abi.AB_CONVERT_WRITABLE;
        return this;
    }

    /** The declared device is checked against the driver first. */
    public Options verifyPointer() {
        flags |= Abi.AB_CONVERT_VERIFY_POINTER;
        return this;
    }

    /** The stream or queue after which the source is ready, as in the array API. */
    public Options srcStream(long stream) {
        this.srcStream = stream;
        return this;
    }

    /** The stream or queue on which the result is used. */
    public Options dstStream(long stream) {
        this.dstStream = stream;
        return this;
    }

    void write(Scratch scratch) {
        scratch.clear(Scratch.OPTIONS, Abi.AbConvertOptions.BYTES);
        ByteBuffer memory = scratch.memory;
        int at = Scratch.OPTIONS;
        memory.putInt(at + Abi.AbConvertOptions.FLAGS, flags);
        if (device != null) {
            memory.putInt(at + Abi.AbConvertOptions.DEVICE_DEVICE_TYPE, device.type());
            memory.putInt(at + Abi.AbConvertOptions.DEVICE_DEVICE_ID, device.id());
        }
        if (dtype != null) {
            dtype.write(memory, at + Abi.AbConvertOptions.DTYPE_CODE);
        }
        memory.putInt(at + Abi.AbConvertOptions.COPY, copy.value);
        memory.putInt(at + Abi.AbConvertOptions.LAYOUT, layout.value);
        memory.putInt(at + Abi.AbConvertOptions.CASTING, casting.value);
        memory.putInt(at + Abi.AbConvertOptions.ALIGNMENT, alignment);
        memory.putInt(at + Abi.AbConvertOptions.CONSUMERS, consumers);
        memory.putLong(at + Abi.AbConvertOptions.SRC_STREAM, srcStream);
        memory.putLong(at + Abi.AbConvertOptions.DST_STREAM, dstStream);
    }
}
