package org.arraybridge;

import com.sun.jna.Function;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.lang.ref.Cleaner;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;

/** Calls by way of JNA, on every Java since 17. */
final class JnaBackend implements Backend {
    private static final Cleaner CLEANER = Cleaner.create();

    private record Declared(Function function, boolean[] narrow, String result) {}

    private final Map<String, Declared> functions = new HashMap<>();

    JnaBackend(String path) {
        NativeLibrary library = NativeLibrary.getInstance(path);
        Library.check(path, library.getFunction("ab_abi_version").invokeInt(new Object[0]));
        for (String[] declared : Abi.FUNCTIONS) {
            boolean[] narrow = new boolean[declared.length - 2];
            for (int index = 0; index < narrow.length; index++) {
                narrow[index] = declared[index + 2].endsWith("32");
            }
            functions.put(declared[0], new Declared(library.getFunction(declared[0]), narrow, declared[1]));
        }
    }

    @Override
    public long call(String name, long... arguments) {
        Declared declared = functions.get(name);
        Object[] boxed = new Object[arguments.length];
        for (int index = 0; index < arguments.length; index++) {
            if (declared.narrow[index]) {
                boxed[index] = (int) arguments[index];
            } else {
                boxed[index] = arguments[index];
            }
        }
        switch (declared.result) {
            case "int32", "uint32":
                return declared.function.invokeInt(boxed);
            case "void":
                declared.function.invokeVoid(boxed);
                return 0;
            default:
                return declared.function.invokeLong(boxed);
        }
    }

    @Override
    public long address(Buffer direct) {
        return direct.capacity() == 0 ? 0 : Pointer.nativeValue(Native.getDirectBufferPointer(direct));
    }

    @Override
    public ByteBuffer buffer(long address, int size, Runnable unreachable) {
        ByteBuffer buffer = new Pointer(address).getByteBuffer(0, size);
        if (unreachable != null) {
            CLEANER.register(buffer, unreachable);
        }
        return buffer.order(ByteOrder.nativeOrder());
    }

    @Override
    public String text(long address) {
        return new Pointer(address).getString(0, "UTF-8");
    }
}
