package org.arraybridge;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** A thread's room for the structs of one call. */
final class Scratch {
    static final int ERROR = 0;
    static final int OPTIONS = ERROR + Abi.AbError.BYTES;
    static final int REPORT = OPTIONS + Abi.AbConvertOptions.BYTES;
    static final int INFO = REPORT + Abi.AbReport.BYTES;
    static final int OUT = INFO + Abi.AbTensorInfo.BYTES;
    static final int DTYPE = OUT + 8;
    static final int TENSOR = DTYPE + 8;
    static final int MOST_AXES = 64;
    static final int EXTENTS = TENSOR + Abi.DLTensor.BYTES;
    static final int TEXT = EXTENTS + 2 * 8 * MOST_AXES;
    static final int TEXT_SIZE = 512;

    private static final ThreadLocal<Scratch> MINE = ThreadLocal.withInitial(Scratch::new);

    final ByteBuffer memory = ByteBuffer.allocateDirect(TEXT + TEXT_SIZE).order(ByteOrder.nativeOrder());
    final long address = Library.get().address(memory);

    static Scratch get() {
        return MINE.get();
    }

    /** Sets a struct to zero, and its first field to its size. */
    void clear(int offset, int size) {
        for (int at = offset; at < offset + size; at += 8) {
            memory.putLong(at, 0);
        }
        memory.putInt(offset, size);
    }

    /** Calls a function whose last argument is an ab_error, and throws what it says. */
    void call(String function, long... arguments) {
        memory.putInt(ERROR, Abi.AbError.BYTES);
        long[] all = java.util.Arrays.copyOf(arguments, arguments.length + 1);
        all[arguments.length] = address + ERROR;
        int status = (int) Library.get().call(function, all);
        if (status != Abi.AB_OK) {
            throw new ArraybridgeException(
                    text(ERROR + Abi.AbError.MESSAGE, Abi.AbError.MESSAGE_SIZE),
                    status,
                    memory.getLong(ERROR + Abi.AbError.NATIVE_CODE));
        }
    }

    String text(int offset, int size) {
        return text(memory, offset, size);
    }

    /** Text of a struct's field, which ends with NUL. */
    static String text(ByteBuffer memory, int offset, int size) {
        byte[] bytes = new byte[size];
        memory.get(offset, bytes);
        int length = 0;
        while (length < size && bytes[length] != 0) {
            length++;
        }
        return new String(bytes, 0, length, StandardCharsets.UTF_8);
    }

    /** What a function writes as snprintf does. */
    String written(String function, int struct) {
        Library.get().call(function, address + struct, address + TEXT, TEXT_SIZE);
        return text(TEXT, TEXT_SIZE);
    }
}
