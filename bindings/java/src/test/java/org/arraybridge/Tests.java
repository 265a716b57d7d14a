package org.arraybridge;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Objects;

/** Runs every method whose name begins with "test" of the named classes, and says which fail. */
final class Tests {
    private Tests() {}

    /** What a test throws that cannot be run here. */
    static final class Skipped extends RuntimeException {
        private static final long serialVersionUID = 1;

        Skipped(String why) {
            super(why);
        }
    }

    interface Body {
        void run() throws Exception;
    }

    static void equal(Object got, Object want) {
        if (!Objects.deepEquals(got, want)) {
            throw new AssertionError(show(got) + ", not " + show(want));
        }
    }

    private static String show(Object value) {
        return java.util.Arrays.deepToString(new Object[] {value});
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static <T extends Throwable> T thrown(Class<T> kind, String message, Body body) {
        try {
            body.run();
        } catch (Throwable e) {
            if (kind.isInstance(e) && String.valueOf(e.getMessage()).contains(message)) {
                return kind.cast(e);
            }
            throw new AssertionError("not a " + kind.getSimpleName() + " that says " + message, e);
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }

    public static void main(String[] classes) throws Exception {
        int passed = 0;
        int failed = 0;
        for (String name : classes) {
            Class<?> tests = Class.forName("org.arraybridge." + name);
            for (Method method : tests.getDeclaredMethods()) {
                if (!method.getName().startsWith("test")) {
                    continue;
                }
                try {
                    method.invoke(null);
                    passed++;
                } catch (InvocationTargetException e) {
                    if (e.getCause() instanceof Skipped skipped) {
                        System.out.println("SKIPPED: java: " + method.getName() + ": " + skipped.getMessage());
                    } else {
                        failed++;
                        System.out.println("FAILED " + name + "." + method.getName());
                        e.getCause().printStackTrace(System.out);
                    }
                }
            }
        }
        VectorsTest.report();
        String backend = Library.get().getClass().getSimpleName();
        System.out.println(backend + ", Java " + Runtime.version() + ": " + passed + " passed, " + failed + " failed");
        if (failed > 0 || passed == 0) {
            System.exit(1);
        }
    }
}
