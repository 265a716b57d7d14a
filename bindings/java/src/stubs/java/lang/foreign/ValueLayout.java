/* What a compiler older than 22 is told of java.lang.foreign. Never part of a jar. */
package java.lang.foreign;

public interface ValueLayout extends MemoryLayout {
    interface OfInt extends ValueLayout {}

    interface OfLong extends ValueLayout {}

    interface OfFloat extends ValueLayout {}

    OfInt JAVA_INT = null;
    OfLong JAVA_LONG = null;
    OfFloat JAVA_FLOAT = null;
}
