package org.arraybridge;

import java.lang.ref.Cleaner;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Set;
import java.util.function.BooleanSupplier;

/**
 * A DLPack tensor that this object owns.
 *
 * <p>{@link #close} frees it; what is not closed is, when it is collected. A tensor that is closed, or was
 * taken over by {@link #convert} or {@link #detach}, throws {@link IllegalStateException} from then on.
 * What the native library refuses is an {@link ArraybridgeException} with its message.
 *
 * <p>The memory of a tensor is freed when it is closed and no buffer over it can be reached: a buffer
 * never loses its memory. All methods may be called from any number of threads; one that another thread
 * uses cannot be taken over, and is freed once nobody does.
 */
public final class Tensor implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    private final Memory memory;
    private final Report report;

    private Tensor(Memory memory, Report report) {
        this.memory = memory;
        this.report = report;
        CLEANER.register(this, memory::close);
    }

    /** A tensor over all elements of a direct buffer, from its position to its limit. */
    public static Tensor wrap(Buffer buffer) {
        return wrap(buffer, Dims.of(buffer.remaining()));
    }

    /**
     * A tensor over the memory of a direct buffer in native order, from its position to its limit. The
     * buffer is kept as long as a tensor shares its memory.
     *
     * @throws IllegalArgumentException if the buffer is on the heap or of another byte order, or if
     *     elements would lie outside of it
     */
    public static Tensor wrap(Buffer buffer, Dims dims) {
        if (!buffer.isDirect()) {
            throw new IllegalArgumentException(
                    "buffer is on the heap, where memory moves: ByteBuffer.allocateDirect makes one that is not");
        }
        ByteOrder order = ByteOrder.nativeOrder();
        int size;
        String dtype;
        if (buffer instanceof FloatBuffer floats) {
            order = floats.order();
            size = Float.BYTES;
            dtype = "float32";
        } else if (buffer instanceof DoubleBuffer doubles) {
            order = doubles.order();
            size = Double.BYTES;
            dtype = "float64";
        } else if (buffer instanceof IntBuffer ints) {
            order = ints.order();
            size = Integer.BYTES;
            dtype = "int32";
        } else if (buffer instanceof LongBuffer longs) {
            order = longs.order();
            size = Long.BYTES;
            dtype = "int64";
        } else if (buffer instanceof ShortBuffer shorts) {
            order = shorts.order();
            size = Short.BYTES;
            dtype = "int16";
        } else if (buffer instanceof CharBuffer chars) {
            order = chars.order();
            size = Character.BYTES;
            dtype = "uint16";
        } else {
            size = 1;
            dtype = "uint8";
        }
        if (order != ByteOrder.nativeOrder()) {
            throw new IllegalArgumentException("buffer is " + order + ": expected order(ByteOrder.nativeOrder())");
        }
        long address = Library.get().address(buffer) + (long) buffer.position() * size;
        long bytes = (long) buffer.remaining() * size;
        return wrap(address, bytes, dtype, dims, buffer.isReadOnly(), buffer, null);
    }

    static Tensor wrap(
            long address,
            long size,
            String dtype,
            Dims dims,
            boolean readOnly,
            Object owner,
            BooleanSupplier alive) {
        DataType type = dims.dtype != null ? dims.dtype : DataType.of(dtype);
        Scratch scratch = Scratch.get();
        ByteBuffer memory = scratch.memory;
        int at = Scratch.TENSOR;
        int ndim = dims.shape.length;
        int strides = Scratch.EXTENTS + 8 * ndim;
        memory.putLong(at + Abi.DLTensor.DATA, size == 0 ? 0 : address);
        memory.putInt(at + Abi.DLTensor.DEVICE_DEVICE_TYPE, Abi.kDLCPU);
        memory.putInt(at + Abi.DLTensor.DEVICE_DEVICE_ID, 0);
        memory.putInt(at + Abi.DLTensor.NDIM, ndim);
        type.write(memory, at + Abi.DLTensor.DTYPE_CODE);
        memory.putLong(at + Abi.DLTensor.SHAPE, ndim == 0 ? 0 : scratch.address + Scratch.EXTENTS);
        memory.putLong(
                at + Abi.DLTensor.STRIDES, dims.strides == null || ndim == 0 ? 0 : scratch.address + strides);
        memory.putLong(at + Abi.DLTensor.BYTE_OFFSET, dims.byteOffset);
        for (int axis = 0; axis < ndim; axis++) {
            memory.putLong(Scratch.EXTENTS + 8 * axis, dims.shape[axis]);
            if (dims.strides != null) {
                memory.putLong(strides + 8 * axis, dims.strides[axis]);
            }
        }
        long flags = 0;
        if (readOnly || dims.readOnly) {
            flags |= Abi.DLPACK_FLAG_BITMASK_READ_ONLY;
        }
        if (dims.padded) {
            flags |= Abi.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
        }
        TensorInfo info = detect(scratch, scratch.address + at, flags);
        if (info.numElements() > 0 && (info.beginOffset() < 0 || info.endOffset() > size)) {
            throw new IllegalArgumentException(
                    String.format(
                            "the elements lie in bytes %d to %d of a buffer of %d",
                            info.beginOffset(), info.endOffset(), size));
        }
        scratch.call("ab_wrap", scratch.address + at, flags, 0, 0, scratch.address + Scratch.OUT);
        return new Tensor(new Memory(memory.getLong(Scratch.OUT), owner, alive), null);
    }

    /**
     * Takes over a DLManagedTensorVersioned, whose address is trusted: its deleter is called once, when the
     * tensor is closed.
     */
    public static Tensor adopt(long pointer) {
        if (pointer == 0) {
            throw new IllegalArgumentException("pointer is 0: expected the address of a DLManagedTensorVersioned");
        }
        return new Tensor(new Memory(pointer, null, null), null);
    }

    /**
     * Hands the tensor out: the address of a DLManagedTensorVersioned whose deleter the receiver calls.
     *
     * @throws IllegalStateException if the memory is Java's or buffers over it exist, whose end the
     *     receiver's deleter could not wait for: hand out a copy then
     */
    public long detach() {
        memory.take();
        if (memory.isJavas() || memory.isLookedAt()) {
            memory.keep();
            throw new IllegalStateException("the memory is Java's, or buffers look at it: hand out a copy() instead");
        }
        memory.taken("handed out by detach()", true);
        return memory.pointer;
    }

    /** Validates and describes the tensor; reads none of its data. */
    public TensorInfo detect() {
        memory.enter();
        try {
            return detect(Scratch.get(), memory.tensor(), memory.flags);
        } finally {
            memory.leave();
        }
    }

    private static TensorInfo detect(Scratch scratch, long tensor, long flags) {
        scratch.clear(Scratch.INFO, Abi.AbTensorInfo.BYTES);
        scratch.call("ab_detect", tensor, flags, scratch.address + Scratch.INFO);
        return TensorInfo.read(scratch.memory);
    }

    /** {@link #convert(Options)} with nothing asked for. */
    public Tensor convert() {
        return convert(new Options());
    }

    /**
     * The tensor as asked for: the same memory if possible, else new. Takes this tensor over, as close does;
     * if it throws, this one is as it was.
     */
    public Tensor convert(Options options) {
        memory.take();
        Memory result = null;
        boolean keeps = false;
        try {
            // Memory that someone looks at must outlive a copy of it, which ab_convert would not let it.
            keeps = memory.isLookedAt() && !planned(options).zeroCopy();
            Scratch scratch = request(options);
            long wanted = scratch.address + Scratch.OPTIONS;
            long out = scratch.address + Scratch.OUT;
            long done = scratch.address + Scratch.REPORT;
            if (keeps) {
                scratch.call("ab_copy", 0, memory.tensor(), memory.flags, wanted, out, done);
            } else {
                scratch.call("ab_convert", 0, memory.pointer, wanted, out, done);
            }
            Report report = Report.read(scratch);
            long pointer = scratch.memory.getLong(Scratch.OUT);
            result = report.zeroCopy() ? memory.successor(pointer) : new Memory(pointer, null, null);
            return new Tensor(result, report);
        } finally {
            if (result == null) {
                memory.keep();
            } else {
                memory.taken("taken over by convert()", !keeps);
            }
        }
    }

    /** {@link #copy(Options)} with nothing asked for. */
    public Tensor copy() {
        return copy(new Options());
    }

    /** New memory, independent of this tensor. */
    public Tensor copy(Options options) {
        memory.enter();
        try {
            Scratch scratch = request(options);
            scratch.call(
                    "ab_copy",
                    0,
                    memory.tensor(),
                    memory.flags,
                    scratch.address + Scratch.OPTIONS,
                    scratch.address + Scratch.OUT,
                    scratch.address + Scratch.REPORT);
            long pointer = scratch.memory.getLong(Scratch.OUT);
            return new Tensor(new Memory(pointer, null, null), Report.read(scratch));
        } finally {
            memory.leave();
        }
    }

    /** {@link #copyInto(Tensor, Options)} with nothing asked for. */
    public Report copyInto(Tensor destination) {
        return copyInto(destination, new Options());
    }

    /**
     * Copies into a tensor of the same shape, of any strides, dtype and device. Casting, saturation and
     * streams of the options are used. After a value that is {@link Status#LOSSY} the destination's contents
     * are unspecified; after any other failure they are as they were.
     */
    public Report copyInto(Tensor destination, Options options) {
        memory.enter();
        try {
            destination.memory.enter();
            try {
                Scratch scratch = request(options);
                scratch.call(
                        "ab_copy_into",
                        0,
                        memory.tensor(),
                        memory.flags,
                        destination.memory.tensor(),
                        destination.memory.flags,
                        scratch.address + Scratch.OPTIONS,
                        scratch.address + Scratch.REPORT);
                return Report.read(scratch);
            } finally {
                destination.memory.leave();
            }
        } finally {
            memory.leave();
        }
    }

    /** What {@link #convert(Options)} would do, without doing it; throws what it would throw. */
    public Report plan(Options options) {
        memory.enter();
        try {
            return planned(options);
        } finally {
            memory.leave();
        }
    }

    private Report planned(Options options) {
        Scratch scratch = request(options);
        scratch.call(
                "ab_plan",
                0,
                memory.tensor(),
                memory.flags,
                scratch.address + Scratch.OPTIONS,
                scratch.address + Scratch.REPORT);
        return Report.read(scratch);
    }

    private static Scratch request(Options options) {
        Scratch scratch = Scratch.get();
        options.write(scratch);
        scratch.clear(Scratch.REPORT, Abi.AbReport.BYTES);
        return scratch;
    }

    /**
     * The tensor's own memory, row-major on the host, in native byte order; read-only if the tensor is. It
     * stays valid after close.
     *
     * @throws IllegalStateException if it is not row-major, not on the host, or larger than a buffer
     */
    public ByteBuffer buffer() {
        return view(
                (address, size) -> {
                    if (size > Integer.MAX_VALUE) {
                        throw new IllegalStateException(
                                "the tensor has " + size + " bytes, more than a buffer: Segments.segment() has no limit");
                    }
                    if (size == 0) {
                        return ByteBuffer.allocateDirect(0).order(ByteOrder.nativeOrder());
                    }
                    ByteBuffer buffer = Library.get().buffer(address, (int) size, memory.look());
                    boolean readOnly = (memory.flags & Abi.DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
                    return readOnly ? buffer.asReadOnlyBuffer().order(ByteOrder.nativeOrder()) : buffer;
                });
    }

    /** Makes something of memory and its size in bytes. */
    interface Viewer<T> {
        T view(long address, long size);
    }

    <T> T view(Viewer<T> viewer) {
        memory.enter();
        try {
            TensorInfo info = detect(Scratch.get(), memory.tensor(), memory.flags);
            if (!info.flags().containsAll(Set.of(TensorFlag.HOST_READABLE, TensorFlag.C_CONTIGUOUS))) {
                throw new IllegalStateException(
                        "the tensor is not row-major memory of the host: "
                                + "convert(new Options().device(Device.CPU).layout(Layout.C)) it first");
            }
            ByteBuffer struct = struct();
            long data = struct.getLong(Abi.DLManagedTensorVersioned.DL_TENSOR_DATA);
            return viewer.view(
                    data + struct.getLong(Abi.DLManagedTensorVersioned.DL_TENSOR_BYTE_OFFSET), info.numBytes());
        } finally {
            memory.leave();
        }
    }

    Runnable look() {
        return memory.look();
    }

    private ByteBuffer struct() {
        return Library.get().buffer(memory.pointer, Abi.DLManagedTensorVersioned.BYTES, null);
    }

    private long[] extents(int field) {
        memory.enter();
        try {
            ByteBuffer struct = struct();
            int ndim = struct.getInt(Abi.DLManagedTensorVersioned.DL_TENSOR_NDIM);
            long[] extents = new long[ndim];
            long address = struct.getLong(field);
            if (ndim > 0 && address != 0) {
                Library.get().buffer(address, 8 * ndim, null).asLongBuffer().get(extents);
            }
            return extents;
        } finally {
            memory.leave();
        }
    }

    /** The extents of the axes. */
    public long[] shape() {
        return extents(Abi.DLManagedTensorVersioned.DL_TENSOR_SHAPE);
    }

    /** Steps between elements, in elements. */
    public long[] strides() {
        return extents(Abi.DLManagedTensorVersioned.DL_TENSOR_STRIDES);
    }

    /** The dtype of the elements. */
    public DataType dtype() {
        return detect().dtype();
    }

    /** Where the tensor is. */
    public Device device() {
        return detect().device();
    }

    /** What the call that made it did; null if wrap or adopt made it. */
    public Report report() {
        return report;
    }

    /** Whether it can be used. */
    public boolean isOpen() {
        return memory.isOpen();
    }

    /** Frees the tensor as soon as nobody uses it; a second time does nothing. */
    @Override
    public void close() {
        memory.close();
    }
}
