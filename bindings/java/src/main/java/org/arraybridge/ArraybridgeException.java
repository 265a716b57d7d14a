package org.arraybridge;

/** What the native library refused or failed at: the message names the field, its value, and what would have worked. */
public final class ArraybridgeException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int status;
    private final long nativeCode;

    ArraybridgeException(String message, int status, long nativeCode) {
        super(message);
        this.status = status;
        this.nativeCode = nativeCode;
    }

    /** Which of the failures it is. */
    public Status status() {
        return Status.of(status);
    }

    /** The status's number, one of the negative AB_E_*. */
    public int code() {
        return status;
    }

    /** The driver's own error number, or 0. */
    public long nativeCode() {
        return nativeCode;
    }
}
