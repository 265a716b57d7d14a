/* What a compiler older than 22 is told of java.lang.foreign. Never part of a jar. */
package java.lang.foreign;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.util.function.Consumer;

public interface MemorySegment {
    interface Scope {
        boolean isAlive();
    }

    MemorySegment NULL = null;

    static MemorySegment ofAddress(long address) {
        return null;
    }

    static MemorySegment ofBuffer(Buffer buffer) {
        return null;
    }

    static MemorySegment ofArray(float[] array) {
        return null;
    }

    long address();

    long byteSize();

    Scope scope();

    boolean isNative();

    boolean isReadOnly();

    MemorySegment asReadOnly();

    ByteBuffer asByteBuffer();

    MemorySegment reinterpret(long newSize);

    MemorySegment reinterpret(long newSize, Arena arena, Consumer<MemorySegment> cleanup);

    float getAtIndex(ValueLayout.OfFloat layout, long index);

    void setAtIndex(ValueLayout.OfFloat layout, long index, float value);
}
