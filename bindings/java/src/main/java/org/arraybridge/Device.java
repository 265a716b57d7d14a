package org.arraybridge;

/**
 * A DLPack device.
 *
 * @param type DLPack's number for the kind
 * @param id which one of them
 */
public record Device(int type, int id) {
    /** The host. */
    public static final Device CPU = new Device(Abi.kDLCPU, 0);

    /** A CUDA device. */
    public static Device cuda(int id) {
        return new Device(Abi.kDLCUDA, id);
    }

    /** Host memory that CUDA has pinned. */
    public static Device cudaHost() {
        return new Device(Abi.kDLCUDAHost, 0);
    }

    /** An OpenCL device, numbered as {@link Arraybridge#devices} lists them. */
    public static Device opencl(int id) {
        return new Device(Abi.kDLOpenCL, id);
    }

    /** An Apple GPU. */
    public static Device metal(int id) {
        return new Device(Abi.kDLMetal, id);
    }
}
