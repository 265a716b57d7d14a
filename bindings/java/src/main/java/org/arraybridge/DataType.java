package org.arraybridge;

import java.nio.charset.StandardCharsets;

/**
 * A DLPack dtype.
 *
 * @param code DLPack's number for the kind
 * @param bits bits of one lane
 * @param lanes lanes of an element, mostly 1
 */
public record DataType(int code, int bits, int lanes) {
    /** Refuses what is not a byte, a byte and a short. */
    public DataType {
        if ((code & ~0xff) != 0 || (bits & ~0xff) != 0 || (lanes & ~0xffff) != 0) {
            throw new IllegalArgumentException("dtype (" + code + ", " + bits + ", " + lanes + ") does not fit DLDataType");
        }
    }

    /**
     * Reads a name ("float32", "bfloat16"), an array-interface typestr ("&lt;f4") or a PEP 3118 format ("f").
     *
     * @throws ArraybridgeException if it is none
     */
    public static DataType of(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (text.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("dtype contains NUL: " + text);
        }
        Scratch scratch = Scratch.get();
        // Longer texts than the scratch has room for are no dtype, and as unknown when they are cut.
        int length = Math.min(bytes.length, Scratch.TEXT_SIZE - 1);
        scratch.memory.put(Scratch.TEXT, bytes, 0, length);
        scratch.memory.put(Scratch.TEXT + length, (byte) 0);
        scratch.call("ab_dtype_parse", scratch.address + Scratch.TEXT, scratch.address + Scratch.DTYPE);
        return read(scratch.memory, Scratch.DTYPE);
    }

    static DataType read(java.nio.ByteBuffer memory, int offset) {
        return new DataType(
                memory.get(offset + Abi.DLDataType.CODE) & 0xff,
                memory.get(offset + Abi.DLDataType.BITS) & 0xff,
                memory.getShort(offset + Abi.DLDataType.LANES) & 0xffff);
    }

    void write(java.nio.ByteBuffer memory, int offset) {
        memory.put(offset + Abi.DLDataType.CODE, (byte) code);
        memory.put(offset + Abi.DLDataType.BITS, (byte) bits);
        memory.putShort(offset + Abi.DLDataType.LANES, (short) lanes);
    }

    /** The dtype's name, "float32". */
    @Override
    public String toString() {
        Scratch scratch = Scratch.get();
        write(scratch.memory, Scratch.DTYPE);
        return scratch.written("ab_dtype_format", Scratch.DTYPE);
    }
}
