package org.arraybridge;

import static org.arraybridge.Tests.equal;
import static org.arraybridge.Tests.that;
import static org.arraybridge.Tests.thrown;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

final class TensorTest {
    private TensorTest() {}

    private static ByteBuffer memory(int size) {
        return ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder());
    }

    private static FloatBuffer numbers(int count) {
        FloatBuffer numbers = memory(4 * count).asFloatBuffer();
        for (int index = 0; index < count; index++) {
            numbers.put(index, index);
        }
        return numbers;
    }

    private static float[] values(Tensor tensor) {
        FloatBuffer buffer = tensor.buffer().asFloatBuffer();
        float[] values = new float[buffer.remaining()];
        buffer.get(values);
        return values;
    }

    private static Options to(String dtype) {
        return new Options().dtype(dtype);
    }

    static void testBuffersAreShared() {
        FloatBuffer numbers = numbers(6);
        try (Tensor shared = Tensor.wrap(numbers, Dims.of(2, 3)).convert()) {
            equal(shared.shape(), new long[] {2, 3});
            equal(shared.strides(), new long[] {3, 1});
            equal(shared.report().route(), Route.ZERO_COPY);
            shared.buffer().putFloat(20, 50);
            equal(numbers.get(5), 50f);
        }
    }

    static void testKindsOfBuffers() {
        ByteBuffer memory = memory(64);
        equal(Tensor.wrap(memory).dtype().toString(), "uint8");
        equal(Tensor.wrap(memory.asShortBuffer()).dtype().toString(), "int16");
        equal(Tensor.wrap(memory.asCharBuffer()).dtype().toString(), "uint16");
        equal(Tensor.wrap(memory.asIntBuffer()).dtype().toString(), "int32");
        equal(Tensor.wrap(memory.asLongBuffer()).dtype().toString(), "int64");
        equal(Tensor.wrap(memory.asFloatBuffer()).dtype().toString(), "float32");
        equal(Tensor.wrap(memory.asDoubleBuffer()).dtype().toString(), "float64");
        equal(values(Tensor.wrap(numbers(10).position(4).limit(7)).copy()), new float[] {4, 5, 6});
        equal(values(Tensor.wrap(numbers(10).slice(4, 3)).copy()), new float[] {4, 5, 6});
        equal(values(Tensor.wrap(numbers(0)).convert()), new float[0]);
        equal(Tensor.wrap(numbers(1), Dims.of()).convert().shape(), new long[0]);
        Tensor readOnly = Tensor.wrap(numbers(3).asReadOnlyBuffer());
        that(readOnly.detect().flags().contains(TensorFlag.READ_ONLY), "not read-only");
        that(readOnly.buffer().isReadOnly(), "not read-only");
        that(!readOnly.convert(new Options().writable()).buffer().isReadOnly(), "not writable");
    }

    static void testConvert() {
        FloatBuffer numbers = numbers(6);
        Tensor tensor = Tensor.wrap(numbers, Dims.of(3, 2).strides(1, 3));
        Tensor result = tensor.convert(to("float64").layout(Layout.C));
        double[] got = new double[6];
        result.buffer().asDoubleBuffer().get(got);
        equal(got, new double[] {0, 3, 1, 4, 2, 5});
        equal(result.report().reasons(), EnumSet.of(Reason.DTYPE, Reason.LAYOUT));
        equal(result.report().toString(), "host, 1 pass, 24 B read, 48 B written (dtype, layout)");
        that(!tensor.isOpen() && result.isOpen(), "who is open");
    }

    static void testPlanSaysWhatConvertDoes() {
        Tensor tensor = Tensor.wrap(numbers(600));
        Report plan = tensor.plan(to("int8").saturate());
        Report done = tensor.convert(to("int8").saturate()).report();
        equal(plan.nanoseconds(), 0L);
        equal(plan.toString(), done.toString());
        equal(plan.reasons(), done.reasons());
        equal(plan.bytesWritten(), 600L);
    }

    static void testDetect() {
        TensorInfo info = Tensor.wrap(numbers(6), Dims.of(2, 3).readOnly()).detect();
        equal(info.device(), Device.CPU);
        equal(info.dtype(), new DataType(Abi.kDLFloat, 32, 1));
        equal(List.of(info.ndim(), info.numElements(), info.numBytes()), List.of(2, 6L, 24L));
        equal(List.of(info.beginOffset(), info.endOffset()), List.of(0L, 24L));
        that(info.flags().containsAll(Set.of(TensorFlag.C_CONTIGUOUS, TensorFlag.READ_ONLY)), "" + info);
        that(info.acceptedBy().contains(Consumer.NUMPY) && !info.acceptedBy().contains(Consumer.TORCH), "" + info);
    }

    private static void refused(Status status, String message, Tests.Body body) {
        ArraybridgeException e = thrown(ArraybridgeException.class, message, body);
        equal(e.status(), status);
        equal(e.code(), status.value);
        equal(e.nativeCode(), 0L);
    }

    static void testErrors() {
        Tensor tensor = Tensor.wrap(numbers(6));
        refused(Status.COPY_REQUIRED, "float32 to int8", () -> tensor.convert(to("int8").copy(CopyMode.NEVER)));
        refused(Status.INVALID_ARGUMENT, "shape", () -> tensor.copyInto(Tensor.wrap(numbers(5))));
        refused(Status.OVERLAP, "overlap", () -> tensor.copyInto(tensor));
        refused(
                Status.READ_ONLY,
                "READ_ONLY",
                () -> tensor.copyInto(Tensor.wrap(numbers(6), Dims.of(6).readOnly())));
        refused(
                Status.UNSUPPORTED_DTYPE,
                "99",
                () -> tensor.copy(new Options().dtype(new DataType(99, 8, 1))));
        refused(Status.UNSUPPORTED_DEVICE, "", () -> tensor.convert(new Options().device(Device.metal(0))));
        refused(Status.UNSUPPORTED_DTYPE, "flot32", () -> DataType.of("flot32"));
        refused(Status.INVALID_TENSOR, "-3", () -> Tensor.wrap(numbers(2), Dims.of(-3)));
        FloatBuffer half = numbers(1).put(0, 0.5f);
        refused(Status.LOSSY, "", () -> Tensor.wrap(half).copy(to("int8").casting(Casting.EXACT)));
        equal(values(tensor), new float[] {0, 1, 2, 3, 4, 5}); // as it was
    }

    static void testWrongArguments() {
        FloatBuffer numbers = numbers(6);
        Class<IllegalArgumentException> wrong = IllegalArgumentException.class;
        thrown(wrong, "bytes 0 to 28 of a buffer of 24", () -> Tensor.wrap(numbers, Dims.of(7)));
        thrown(wrong, "bytes -4 to 4", () -> Tensor.wrap(numbers, Dims.of(2).strides(-1)));
        thrown(wrong, "bytes 20 to 28", () -> Tensor.wrap(numbers, Dims.of(2).byteOffset(20)));
        thrown(wrong, "allocateDirect", () -> Tensor.wrap(FloatBuffer.allocate(6)));
        ByteBuffer foreign = ByteBuffer.allocateDirect(8);
        foreign.order(ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN);
        thrown(wrong, "nativeOrder", () -> Tensor.wrap(foreign.asFloatBuffer()));
        thrown(wrong, "2 axes and shape 1", () -> Dims.of(2).strides(1, 1));
        thrown(wrong, "64 at most", () -> Dims.of(new long[65]));
        thrown(wrong, "does not fit", () -> new DataType(256, 8, 1));
        thrown(wrong, "NUL", () -> DataType.of("float32\0"));
        thrown(wrong, "pointer is 0", () -> Tensor.adopt(0));
        Tensor strided = Tensor.wrap(numbers, Dims.of(3).strides(2));
        thrown(IllegalStateException.class, "layout(Layout.C)", strided::buffer);
    }

    static void testClosed() {
        Tensor closed = Tensor.wrap(numbers(6));
        closed.close();
        closed.close();
        Tensor taken = Tensor.wrap(numbers(6));
        Tensor rest = taken.convert();
        for (Tensor tensor : List.of(closed, taken)) {
            List<Tests.Body> uses =
                    List.of(
                            tensor::detect,
                            tensor::convert,
                            tensor::copy,
                            () -> tensor.copyInto(rest),
                            () -> rest.copyInto(tensor),
                            () -> tensor.plan(new Options()),
                            tensor::buffer,
                            tensor::detach,
                            tensor::shape,
                            tensor::strides,
                            tensor::dtype,
                            tensor::device);
            for (Tests.Body use : uses) {
                thrown(IllegalStateException.class, tensor == taken ? "taken over by convert" : "closed", use);
            }
        }
    }

    private static void collect() throws InterruptedException {
        for (int round = 0; round < 5; round++) {
            System.gc();
            Thread.sleep(20);
        }
    }

    static void testBuffersOutliveTensors() throws InterruptedException {
        Tensor tensor = Tensor.wrap(numbers(1000)).copy();
        FloatBuffer view = tensor.buffer().asFloatBuffer().slice(10, 100);
        Tensor other = tensor.convert(to("float64")); // frees its source, but not while someone looks at it
        equal(other.buffer().getDouble(80), 10.0);
        Tensor shared = Tensor.wrap(numbers(1000)).copy();
        FloatBuffer before = shared.buffer().asFloatBuffer();
        Tensor after = shared.convert();
        that(after.report().zeroCopy(), "a copy");
        after.close();
        FloatBuffer wrapped = Tensor.wrap(numbers(1000)).buffer().asFloatBuffer();
        collect();
        for (int round = 0; round < 20; round++) {
            Tensor.wrap(numbers(1000)).copy(new Options()).buffer().putFloat(0, -1);
        }
        collect();
        for (int index = 0; index < 100; index++) {
            equal(view.get(index), (float) (index + 10));
            equal(before.get(index), (float) index);
            equal(wrapped.get(index), (float) index);
        }
    }

    private static WeakReference<Object> forgotten(boolean look) {
        FloatBuffer numbers = numbers(1000);
        Tensor tensor = Tensor.wrap(numbers);
        if (look) {
            tensor.buffer();
        }
        return new WeakReference<>(numbers);
    }

    static void testWhatNobodyCanReachIsFreed() throws Exception {
        for (boolean look : new boolean[] {false, true}) {
            WeakReference<Object> numbers = forgotten(look);
            for (int round = 0; round < 50 && numbers.get() != null; round++) {
                collect();
            }
            that(numbers.get() == null, "a forgotten tensor keeps its buffer, looked at: " + look);
        }
        int megabytes = 16;
        int many = 100;
        for (int round = 0; round < many; round++) {
            Tensor big = Tensor.wrap(memory(1)).copy(new Options());
            big.close();
            Tensor.wrap(memory(megabytes << 20)).copy().close();
            if (round % 10 == 0) {
                collect();
            }
        }
        long kilobytes =
                Files.readAllLines(Path.of("/proc/self/status")).stream()
                        .filter(line -> line.startsWith("VmRSS"))
                        .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
                        .sum();
        that(kilobytes < (long) many * megabytes * 1024, kilobytes + " KiB are in use");
    }

    static void testDetachAndAdopt() {
        Tensor tensor = Tensor.wrap(numbers(6), Dims.of(2, 3)).copy();
        long pointer = tensor.detach();
        thrown(IllegalStateException.class, "handed out", tensor::detect);
        Tensor other = Tensor.adopt(pointer);
        equal(other.shape(), new long[] {2, 3});
        ByteBuffer view = other.buffer();
        thrown(IllegalStateException.class, "copy()", other::detach);
        equal(view.getFloat(20), 5f);
        Tensor wrapped = Tensor.wrap(numbers(6));
        thrown(IllegalStateException.class, "copy()", wrapped::detach);
        equal(values(wrapped).length, 6);
    }

    static void testThreads() throws Exception {
        Tensor source = Tensor.wrap(numbers(10000));
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Future<?>> running = new ArrayList<>();
        for (int thread = 0; thread < 8; thread++) {
            Callable<Void> work =
                    () -> {
                        for (int round = 0; round < 100; round++) {
                            Tensor copy = source.copy(to("float64"));
                            equal(copy.buffer().getDouble(8 * 77), 77.0);
                            // Closed, taken over and used by two at once: an answer or an exception, never a crash.
                            Thread other = new Thread(copy::close);
                            other.start();
                            try {
                                copy.convert(to("int32")).close();
                            } catch (IllegalStateException e) {
                                that(e.getMessage().startsWith("the tensor is"), e.getMessage());
                            }
                            other.join();
                        }
                        return null;
                    };
            running.add(threads.submit(work));
        }
        for (Future<?> one : running) {
            one.get();
        }
        threads.shutdown();
        source.close();
    }

    static void testDevices() {
        equal(Arraybridge.backends().get(0).name(), "host");
        for (Arraybridge.DeviceInfo device : Arraybridge.devices()) {
            if (device.device().type() == Abi.kDLOpenCL) {
                Tensor there = Tensor.wrap(numbers(6)).convert(new Options().device(device.device()));
                equal(there.report().route(), Route.UPLOAD);
                thrown(IllegalStateException.class, "Device.CPU", there::buffer);
                Tensor back = there.convert(to("float64").device(Device.CPU));
                equal(back.buffer().getDouble(40), 5.0);
                return;
            }
        }
        throw new Tests.Skipped("no OpenCL device is here");
    }

    /** Runs the version in a JVM of its own with another library. */
    private static String says(String library) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        if (Runtime.version().feature() >= 22) {
            command.add("--enable-native-access=ALL-UNNAMED");
        }
        command.add("-Darraybridge.backend=" + System.getProperty("arraybridge.backend", ""));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), "org.arraybridge.TensorTest"));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().put("ARRAYBRIDGE_LIBRARY", library);
        Process process = builder.start();
        String output = new String(process.getInputStream().readAllBytes());
        process.waitFor();
        return output;
    }

    public static void main(String[] arguments) {
        try {
            System.out.println(Arraybridge.version());
        } catch (UnsatisfiedLinkError e) {
            System.out.println("UnsatisfiedLinkError " + e.getMessage());
        }
    }

    static void testWhatCannotBeLoadedIsNamed() throws Exception {
        if (System.getenv("ARRAYBRIDGE_LIBRARY") == null) {
            that(Arraybridge.libraryPath().endsWith("java/libarraybridge.so"), Arraybridge.libraryPath());
        }
        String missing = says("/nowhere/libarraybridge.so");
        that(missing.startsWith("UnsatisfiedLinkError no usable"), missing);
        that(missing.contains("/nowhere/libarraybridge.so: no such file"), missing);
        Path folder = Files.createTempDirectory("arraybridge");
        Path source = folder.resolve("other.c");
        Path library = folder.resolve("libother.so");
        try {
            String text = "#include <stdint.h>\nuint32_t ab_abi_version(void) { return 2 << 16; }\n";
            Files.writeString(source, text);
            Process compiler =
                    new ProcessBuilder("cc", "-shared", "-fPIC", "-o", library.toString(), source.toString()).start();
            equal(compiler.waitFor(), 0);
            String old = says(library.toString());
            that(old.contains("its ABI is 2.0, and this package needs 1.0 or a later 1"), old);
            equal(says(Arraybridge.libraryPath()).strip(), Arraybridge.version());
        } finally {
            Files.deleteIfExists(library);
            Files.deleteIfExists(source);
            Files.delete(folder);
        }
    }
}
