package org.arraybridge;

import java.nio.Buffer;
import java.nio.ByteBuffer;

/** A way to call C: JNA, or Java's own foreign functions. Pointers and sizes are longs. */
interface Backend {
    /** Calls a function of {@link Abi#FUNCTIONS}. A result of 32 bits is extended, none is 0. */
    long call(String function, long... arguments);

    /** The address of a direct buffer's first element, its position aside. */
    long address(Buffer direct);

    /**
     * A buffer over native memory, in native order.
     *
     * @param unreachable run once nothing refers to the buffer or what was made of it; null: nothing is
     */
    ByteBuffer buffer(long address, int size, Runnable unreachable);

    /** Text that ends with NUL. */
    String text(long address);
}
