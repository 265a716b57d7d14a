package org.arraybridge;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** tests/vectors through this package; says how many passed in the file that ARRAYBRIDGE_RESULTS names. */
final class VectorsTest {
    private VectorsTest() {}

    private static int passed;
    private static final List<String> FAILURES = new ArrayList<>();

    private static Path folder() {
        return Path.of(System.getenv("ARRAYBRIDGE_VECTORS"));
    }

    private static Object json(String name) throws IOException {
        return Json.read(Files.readString(folder().resolve(name)));
    }

    private static byte[] bytes(String name) throws IOException {
        return Files.readAllBytes(folder().resolve(name));
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    private static List<?> list(Object value) {
        return (List<?>) value;
    }

    private static int number(Object object, String name) {
        return Math.toIntExact((Long) object(object).get(name));
    }

    private static String text(Object object, String name) {
        return (String) object(object).get(name);
    }

    private static void vector(String name, Tests.Body body) {
        try {
            body.run();
            passed++;
        } catch (Exception | AssertionError e) {
            FAILURES.add(name + ": " + e.getMessage());
        }
    }

    private static void all(int least, int before) {
        Tests.that(FAILURES.isEmpty(), String.join("\n", FAILURES.subList(0, Math.min(20, FAILURES.size()))));
        Tests.that(passed - before >= least, "only " + (passed - before) + " vectors");
    }

    private static ByteBuffer direct(byte[] data, int offset, int size) {
        return ByteBuffer.allocateDirect(size).put(0, data, offset, size);
    }

    private static byte[] content(ByteBuffer buffer) {
        byte[] content = new byte[buffer.capacity()];
        buffer.get(0, content);
        return content;
    }

    /** Copies, and says as what it failed; null: not at all. */
    private static Status copyInto(ByteBuffer from, Dims fromDims, ByteBuffer to, Dims toDims, Options options) {
        try (Tensor source = Tensor.wrap(from, fromDims);
                Tensor destination = Tensor.wrap(to, toDims)) {
            source.copyInto(destination, options);
            return null;
        } catch (ArraybridgeException e) {
            return e.status();
        }
    }

    private static Dims scalar(DataType dtype) {
        return Dims.of().dtype(dtype).padded();
    }

    private record Input(int offset, int count, int itemsize) {
        static Input of(Object casts, String dtype) {
            Object input = object(object(casts).get("inputs")).get(dtype);
            return new Input(number(input, "offset"), number(input, "count"), number(input, "itemsize"));
        }
    }

    static void testCasts() throws IOException {
        int before = passed;
        Object casts = json("casts.json");
        byte[] data = bytes("casts.bin");
        for (Object cast : list(object(casts).get("casts"))) {
            String from = text(cast, "from");
            String to = text(cast, "to");
            vector(
                    from + " to " + to,
                    () -> {
                        Input input = Input.of(casts, from);
                        int size = Input.of(casts, to).itemsize();
                        ByteBuffer source = direct(data, input.offset(), input.count() * input.itemsize());
                        // Forwards, backwards and with gaps: each goes through other loops.
                        int[] steps = {1, 1, -1, 2, 3};
                        boolean[] saturated = {false, true, false, true, false};
                        for (int way = 0; way < steps.length; way++) {
                            int step = steps[way];
                            int want = number(cast, saturated[way] ? "saturate_offset" : "offset");
                            ByteBuffer spread = ByteBuffer.allocateDirect(input.count() * size * 3);
                            int first = step < 0 ? (input.count() - 1) * size : 0;
                            Options options = saturated[way] ? new Options().saturate() : new Options();
                            Dims dims = Dims.of(input.count()).strides(step).byteOffset(first);
                            Status status =
                                    copyInto(
                                            source,
                                            Dims.of(input.count()).dtype(from).padded(),
                                            spread,
                                            dims.dtype(to).padded(),
                                            options);
                            Tests.equal(status, null);
                            byte[] got = content(spread);
                            for (int element = 0; element < input.count(); element++) {
                                int at = first + element * step * size;
                                int expected = want + element * size;
                                if (!Arrays.equals(got, at, at + size, data, expected, expected + size)) {
                                    throw new AssertionError("element " + element + ", step " + step);
                                }
                            }
                        }
                    });
        }
        all(676, before);
    }

    static void testExactCasts() throws IOException {
        int before = passed;
        Object casts = json("casts.json");
        byte[] data = bytes("casts.bin");
        ByteBuffer room = ByteBuffer.allocateDirect(16);
        Options exactly = new Options().casting(Casting.EXACT);
        for (Object cast : list(object(casts).get("casts"))) {
            String from = text(cast, "from");
            String to = text(cast, "to");
            if (from.equals(to)) {
                continue;
            }
            vector(
                    "exactly " + from + " to " + to,
                    () -> {
                        Input input = Input.of(casts, from);
                        ByteBuffer source = direct(data, input.offset(), input.count() * input.itemsize());
                        DataType dtype = DataType.of(from);
                        int exact = number(cast, "exact_offset");
                        try (Tensor destination = Tensor.wrap(room, scalar(DataType.of(to)))) {
                            for (int element = 0; element < input.count(); element++) {
                                Status status = null;
                                Dims dims = scalar(dtype).byteOffset((long) element * input.itemsize());
                                try (Tensor value = Tensor.wrap(source, dims)) {
                                    value.copyInto(destination, exactly);
                                } catch (ArraybridgeException e) {
                                    status = e.status();
                                }
                                if (status != (data[exact + element] == 1 ? null : Status.LOSSY)) {
                                    throw new AssertionError("element " + element + ": " + status);
                                }
                            }
                        }
                    });
        }
        all(650, before);
    }

    private static Dims dims(Object shape, Object dtype, Object side) {
        Dims dims = Dims.of(longs(shape)).byteOffset((Long) object(side).get("byte_offset"));
        dims.dtype(new DataType(number(dtype, "code"), number(dtype, "bits"), number(dtype, "lanes")));
        Object strides = object(side).get("strides");
        if (strides != null) {
            dims.strides(longs(strides));
        }
        return (Boolean) object(side).get("padded") ? dims.padded() : dims;
    }

    private static long[] longs(Object list) {
        return list(list).stream().mapToLong(number -> (Long) number).toArray();
    }

    static void testLayouts() throws IOException {
        int before = passed;
        byte[] data = bytes("layouts.bin");
        for (Object layout : list(json("layouts.json"))) {
            vector(
                    text(layout, "name"),
                    () -> {
                        Object src = object(layout).get("src");
                        Object dst = object(layout).get("dst");
                        Object shape = object(layout).get("shape");
                        ByteBuffer source = direct(data, number(src, "offset"), number(src, "size"));
                        ByteBuffer destination = direct(data, number(dst, "before_offset"), number(dst, "size"));
                        Dims from = dims(shape, object(layout).get("from"), src);
                        Dims to = dims(shape, object(layout).get("to"), dst);
                        Tests.equal(copyInto(source, from, destination, to, new Options()), null);
                        int after = number(dst, "after_offset");
                        byte[] want = Arrays.copyOfRange(data, after, after + number(dst, "size"));
                        Tests.equal(content(destination), want);
                    });
        }
        all(200, before);
    }

    static void testDataTypes() throws IOException {
        int before = passed;
        for (Object spelling : list(json("dtypes.json"))) {
            String text = text(spelling, "text");
            vector(
                    text,
                    () -> {
                        if (object(spelling).containsKey("refused")) {
                            Status status =
                                    Tests.thrown(ArraybridgeException.class, "", () -> DataType.of(text)).status();
                            Tests.equal(status, Status.UNSUPPORTED_DTYPE);
                            return;
                        }
                        DataType dtype = DataType.of(text);
                        Tests.equal(dtype.code(), number(spelling, "code"));
                        Tests.equal(dtype.bits(), number(spelling, "bits"));
                        Tests.equal(dtype.lanes(), number(spelling, "lanes"));
                        Tests.equal(dtype.toString(), text(spelling, "name"));
                    });
        }
        all(200, before);
    }

    static void testCastingRules() throws IOException {
        int before = passed;
        Set<String> dtypes = object(object(json("casts.json")).get("inputs")).keySet();
        Object rules = json("can_cast.json");
        ByteBuffer source = ByteBuffer.allocateDirect(16);
        ByteBuffer room = ByteBuffer.allocateDirect(16);
        for (Casting casting : List.of(Casting.SAFE, Casting.SAME_KIND)) {
            Set<Object> allowed = new HashSet<>(list(object(rules).get(casting.name().toLowerCase())));
            for (String from : dtypes) {
                for (String to : dtypes) {
                    vector(
                            casting + " " + from + " to " + to,
                            () -> {
                                Status status =
                                        copyInto(
                                                source,
                                                Dims.of().dtype(from),
                                                room,
                                                Dims.of().dtype(to),
                                                new Options().casting(casting));
                                Tests.equal(status, allowed.contains(List.of(from, to)) ? null : Status.LOSSY);
                            });
                }
            }
        }
        all(1352, before);
    }

    /** The classes' last act. */
    static void report() throws IOException {
        String results = System.getenv("ARRAYBRIDGE_RESULTS");
        if (results != null && !results.isEmpty()) {
            String binding = System.getProperty("arraybridge.backend", "java");
            String text = "{\"binding\": \"%s\", \"passed\": %d, \"skipped\": [], \"failed\": %d}\n";
            binding = binding.equals("ffm") ? "java-ffm" : "java";
            text = String.format(text, binding, passed, FAILURES.size());
            Files.writeString(Path.of(results), text, StandardCharsets.UTF_8);
        }
    }
}
