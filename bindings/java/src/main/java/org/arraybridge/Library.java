package org.arraybridge;

import java.io.File;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.security.CodeSource;
import java.util.ArrayList;
import java.util.List;

/** The shared library, found and loaded by the first call. */
final class Library {
    private Library() {}

    private static Backend loaded;
    private static String path;

    /** The library; the error of the first attempt is not final. */
    static synchronized Backend get() {
        if (loaded == null) {
            loaded = load();
        }
        return loaded;
    }

    static synchronized String path() {
        get();
        return path;
    }

    /** Refuses a library of another ABI than this package's. */
    static void check(String path, int version) {
        int major = version >>> 16;
        int minor = version & 0xffff;
        if (major != Abi.AB_ABI_MAJOR || minor < Abi.AB_ABI_MINOR) {
            throw new UnsatisfiedLinkError(
                    String.format(
                            "its ABI is %d.%d, and this package needs %d.%d or a later %d",
                            major, minor, Abi.AB_ABI_MAJOR, Abi.AB_ABI_MINOR, Abi.AB_ABI_MAJOR));
        }
    }

    /** Where the library may be, the most particular first. */
    private static List<String> places() {
        String named = System.getenv("ARRAYBRIDGE_LIBRARY");
        if (named != null && !named.isEmpty()) {
            // Who names one wants that one or an error.
            return List.of(named.contains(File.separator) ? new File(named).getAbsolutePath() : named);
        }
        List<String> places = new ArrayList<>();
        CodeSource source = Library.class.getProtectionDomain().getCodeSource();
        try {
            if (source != null && "file".equals(source.getLocation().getProtocol())) {
                Path jar = Path.of(source.getLocation().toURI());
                places.add(jar.resolveSibling("libarraybridge.so").toString());
            }
        } catch (URISyntaxException e) {
            // A class path without such a place.
        }
        places.add("libarraybridge.so." + Abi.AB_ABI_MAJOR);
        places.add("libarraybridge.so");
        return places;
    }

    private static Backend load() {
        List<String> tried = new ArrayList<>();
        for (String place : places()) {
            if (place.contains(File.separator) && !new File(place).exists()) {
                tried.add(place + ": no such file");
                continue;
            }
            try {
                Backend backend = open(place);
                path = place;
                return backend;
            } catch (UnsatisfiedLinkError | IllegalArgumentException e) {
                tried.add(place + ": " + e.getMessage());
            }
        }
        throw new UnsatisfiedLinkError(
                "no usable libarraybridge.so:\n  "
                        + String.join("\n  ", tried)
                        + "\nSet ARRAYBRIDGE_LIBRARY to its path, or install it where the system looks for libraries.");
    }

    /** Java's own foreign functions where it has them, else JNA; arraybridge.backend names one. */
    private static Backend open(String place) {
        String wanted = System.getProperty("arraybridge.backend", "");
        boolean foreign = wanted.isEmpty() ? Runtime.version().feature() >= 22 : wanted.equals("ffm");
        if (foreign) {
            try {
                Class<?> backend = Class.forName("org.arraybridge.FfmBackend");
                return (Backend) backend.getDeclaredConstructor(String.class).newInstance(place);
            } catch (java.lang.reflect.InvocationTargetException e) {
                if (e.getCause() instanceof Error error) {
                    throw error;
                }
                throw new UnsatisfiedLinkError(e.getCause().getMessage());
            } catch (ReflectiveOperationException e) {
                if (!wanted.isEmpty()) {
                    throw new UnsatisfiedLinkError("this build of the package has no FFM backend: " + e);
                }
            }
        }
        try {
            return new JnaBackend(place);
        } catch (NoClassDefFoundError e) {
            throw new UnsatisfiedLinkError("net.java.dev.jna:jna is not on the class path, and Java is older than 22");
        }
    }
}
