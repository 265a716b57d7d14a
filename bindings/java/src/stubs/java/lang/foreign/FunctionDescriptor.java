/* What a compiler older than 22 is told of java.lang.foreign. Never part of a jar. */
package java.lang.foreign;

public interface FunctionDescriptor {
    static FunctionDescriptor of(MemoryLayout result, MemoryLayout... arguments) {
        return null;
    }

    static FunctionDescriptor ofVoid(MemoryLayout... arguments) {
        return null;
    }
}
