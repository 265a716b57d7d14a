/* What a compiler older than 22 is told of java.lang.foreign. Never part of a jar. */
package java.lang.foreign;

import java.util.Optional;

public interface SymbolLookup {
    static SymbolLookup libraryLookup(String name, Arena arena) {
        return null;
    }

    Optional<MemorySegment> find(String name);
}
