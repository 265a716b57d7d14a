package org.arraybridge;

/** The way that data takes. */
public enum Route {
    /** The result is the source's own memory. */
    ZERO_COPY(Abi.AB_ROUTE_ZERO_COPY),
    /** Host to host. */
    HOST(Abi.AB_ROUTE_HOST),
    /** Host to device. */
    UPLOAD(Abi.AB_ROUTE_UPLOAD),
    /** Device to host. */
    DOWNLOAD(Abi.AB_ROUTE_DOWNLOAD),
    /** Within one device. */
    DEVICE(Abi.AB_ROUTE_DEVICE),
    /** Device to device without the host. */
    PEER(Abi.AB_ROUTE_PEER),
    /** Device to host to device. */
    STAGED(Abi.AB_ROUTE_STAGED);

    final int value;

    Route(int value) {
        this.value = value;
    }

    static Route of(int value) {
        for (Route known : values()) {
            if (known.value == value) {
                return known;
            }
        }
        throw new IllegalArgumentException("route is " + value);
    }
}
