package org.arraybridge;

/** What a call of the native library failed with. */
public enum Status {
    /** NULL where it is not allowed, a bad option value, shapes that differ. */
    INVALID_ARGUMENT(Abi.AB_E_INVALID_ARGUMENT),
    /** A malformed DLTensor: the message names the field and its value. */
    INVALID_TENSOR(Abi.AB_E_INVALID_TENSOR),
    /**
     * A DLPack major version other than 1, or a struct_size from a newer ABI with fields set that
     * this library does not know.
     */
    VERSION(Abi.AB_E_VERSION),
    /** No backend for this device type, or no such device id. */
    UNSUPPORTED_DEVICE(Abi.AB_E_UNSUPPORTED_DEVICE),
    /** A dtype that cannot be cast, or that a named consumer does not take. */
    UNSUPPORTED_DTYPE(Abi.AB_E_UNSUPPORTED_DTYPE),
    /** A layout or rank that a named consumer does not take. */
    UNSUPPORTED_LAYOUT(Abi.AB_E_UNSUPPORTED_LAYOUT),
    /** Built in or registered, but unusable here: the message says why. */
    BACKEND_UNAVAILABLE(Abi.AB_E_BACKEND_UNAVAILABLE),
    /** AB_COPY_NEVER, and zero copy is impossible: the message names every reason. */
    COPY_REQUIRED(Abi.AB_E_COPY_REQUIRED),
    /** A read-only tensor where it would be written to, or where its flag would be lost. */
    READ_ONLY(Abi.AB_E_READ_ONLY),
    /** A destination that overlaps itself or its source. */
    OVERLAP(Abi.AB_E_OVERLAP),
    /** An allocation failed. */
    OUT_OF_MEMORY(Abi.AB_E_OUT_OF_MEMORY),
    /** The driver failed: native_code is its error number. */
    DEVICE(Abi.AB_E_DEVICE),
    /** The casting rule forbids this cast, or a value did not survive it. */
    LOSSY(Abi.AB_E_LOSSY),
    /** A bug in arraybridge, caught at the boundary. */
    INTERNAL(Abi.AB_E_INTERNAL),
    /** A status that this package does not know. */
    UNKNOWN(0);

    final int value;

    Status(int value) {
        this.value = value;
    }

    static Status of(int value) {
        for (Status known : values()) {
            if (known.value == value) {
                return known;
            }
        }
        return UNKNOWN;
    }
}
