package org.arraybridge;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;

/** The native library and the machine that it is on. */
public final class Arraybridge {
    private Arraybridge() {}

    /**
     * A backend that the library has.
     *
     * @param name "host", "cuda", "opencl"
     * @param available whether it can be used now
     * @param detail version and library, or why it cannot
     */
    public record BackendInfo(String name, boolean available, String detail) {}

    /**
     * A device that can be used here.
     *
     * @param device its DLPack pair
     * @param name the maker's
     * @param backend the name of its backend
     * @param totalMemory bytes; 0: unknown
     * @param freeMemory bytes that are free or can be freed at once; 0: unknown
     */
    public record DeviceInfo(Device device, String name, String backend, long totalMemory, long freeMemory) {}

    /** "MAJOR.MINOR.PATCH" of the native library. */
    public static String version() {
        Backend library = Library.get();
        return library.text(library.call("ab_version"));
    }

    /** Where it was found. */
    public static String libraryPath() {
        return Library.path();
    }

    /** The backends of the library, usable or not. */
    public static List<BackendInfo> backends() {
        return listed(
                "ab_list_backends",
                Abi.AbBackendInfo.BYTES,
                (memory, at) ->
                        new BackendInfo(
                                Scratch.text(memory, at + Abi.AbBackendInfo.NAME, Abi.AbBackendInfo.NAME_SIZE),
                                memory.getInt(at + Abi.AbBackendInfo.AVAILABLE) == 1,
                                Scratch.text(memory, at + Abi.AbBackendInfo.DETAIL, Abi.AbBackendInfo.DETAIL_SIZE)));
    }

    /** The devices that can be used here. Starts their drivers. */
    public static List<DeviceInfo> devices() {
        return listed(
                "ab_list_devices",
                Abi.AbDeviceInfo.BYTES,
                (memory, at) ->
                        new DeviceInfo(
                                new Device(
                                        memory.getInt(at + Abi.AbDeviceInfo.DEVICE_DEVICE_TYPE),
                                        memory.getInt(at + Abi.AbDeviceInfo.DEVICE_DEVICE_ID)),
                                Scratch.text(memory, at + Abi.AbDeviceInfo.NAME, Abi.AbDeviceInfo.NAME_SIZE),
                                Scratch.text(memory, at + Abi.AbDeviceInfo.BACKEND, Abi.AbDeviceInfo.BACKEND_SIZE),
                                memory.getLong(at + Abi.AbDeviceInfo.TOTAL_MEMORY),
                                memory.getLong(at + Abi.AbDeviceInfo.FREE_MEMORY)));
    }

    private static <T> List<T> listed(String function, int size, BiFunction<ByteBuffer, Integer, T> read) {
        Scratch scratch = Scratch.get();
        long count = scratch.address + Scratch.OUT;
        scratch.call(function, 0, 0, 0, count);
        int room = (int) scratch.memory.getLong(Scratch.OUT);
        List<T> found = new ArrayList<>();
        if (room > 0) {
            ByteBuffer memory = ByteBuffer.allocateDirect(room * size).order(ByteOrder.nativeOrder());
            memory.putInt(0, size);
            scratch.call(function, 0, Library.get().address(memory), room, count);
            int there = Math.min(room, (int) scratch.memory.getLong(Scratch.OUT));
            for (int index = 0; index < there; index++) {
                found.add(read.apply(memory, index * size));
            }
        }
        return found;
    }
}
