/* What a compiler older than 22 is told of java.lang.foreign. Never part of a jar. */
package java.lang.foreign;

public interface Arena {
    static Arena ofAuto() {
        return null;
    }

    static Arena ofConfined() {
        return null;
    }

    static Arena global() {
        return null;
    }

    MemorySegment allocate(long byteSize, long byteAlignment);

    void close();
}
