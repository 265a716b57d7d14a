package org.arraybridge;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Calls by way of Java's own foreign functions, from Java 22 on. */
final class FfmBackend implements Backend {
    private final Map<String, MethodHandle> functions = new HashMap<>();

    FfmBackend(String path) throws Throwable {
        // The library stays loaded for the life of the process.
        SymbolLookup library = SymbolLookup.libraryLookup(path, Arena.global());
        String[] version = {"ab_abi_version", "uint32"};
        long found = (long) handle(library, version).invokeExact(new long[0]);
        Library.check(path, (int) found);
        for (String[] declared : Abi.FUNCTIONS) {
            functions.put(declared[0], handle(library, declared));
        }
    }

    /** A function that takes longs and returns one, whatever the C function's own are. */
    private static MethodHandle handle(SymbolLookup library, String[] declared) {
        MemorySegment symbol =
                library.find(declared[0]).orElseThrow(() -> new UnsatisfiedLinkError("it has no " + declared[0]));
        MemoryLayout[] parameters = new MemoryLayout[declared.length - 2];
        for (int index = 0; index < parameters.length; index++) {
            parameters[index] = layout(declared[index + 2]);
        }
        FunctionDescriptor descriptor =
                declared[1].equals("void")
                        ? FunctionDescriptor.ofVoid(parameters)
                        : FunctionDescriptor.of(layout(declared[1]), parameters);
        MethodHandle handle = Linker.nativeLinker().downcallHandle(symbol, descriptor);
        Class<?>[] longs = new Class<?>[parameters.length];
        java.util.Arrays.fill(longs, long.class);
        handle = MethodHandles.explicitCastArguments(handle, MethodType.methodType(long.class, longs));
        return handle.asSpreader(long[].class, parameters.length);
    }

    private static MemoryLayout layout(String kind) {
        return kind.endsWith("32") ? ValueLayout.JAVA_INT : ValueLayout.JAVA_LONG;
    }

    @Override
    public long call(String function, long... arguments) {
        try {
            return (long) functions.get(function).invokeExact(arguments);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public long address(Buffer direct) {
        return direct.capacity() == 0 ? 0 : MemorySegment.ofBuffer(direct.duplicate().clear()).address();
    }

    @Override
    public ByteBuffer buffer(long address, int size, Runnable unreachable) {
        return segment(address, size, unreachable).asByteBuffer().order(ByteOrder.nativeOrder());
    }

    /** Native memory, which what is made of it keeps as well. */
    static MemorySegment segment(long address, long size, Runnable unreachable) {
        MemorySegment segment = MemorySegment.ofAddress(address);
        if (unreachable == null) {
            return segment.reinterpret(size);
        }
        return segment.reinterpret(size, Arena.ofAuto(), ended -> unreachable.run());
    }

    @Override
    public String text(long address) {
        ByteBuffer bytes = buffer(address, 4096, null);
        int length = 0;
        while (bytes.get(length) != 0) {
            length++;
        }
        byte[] text = new byte[length];
        bytes.get(0, text);
        return new String(text, StandardCharsets.UTF_8);
    }
}
