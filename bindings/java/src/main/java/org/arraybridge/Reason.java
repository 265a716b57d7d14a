package org.arraybridge;

import java.util.EnumSet;
import java.util.Set;

/** What rules out zero copy. */
public enum Reason {
    /** AB_COPY_ALWAYS was asked for, or the function always copies. */
    REQUESTED(Abi.AB_REASON_REQUESTED),
    /** The data is on another device. */
    DEVICE(Abi.AB_REASON_DEVICE),
    /** The data has another dtype. */
    DTYPE(Abi.AB_REASON_DTYPE),
    /** The strides are not those of the layout. */
    LAYOUT(Abi.AB_REASON_LAYOUT),
    /** The first element is not aligned as asked. */
    ALIGNMENT(Abi.AB_REASON_ALIGNMENT),
    /** The source is read-only and a writable result was asked for. */
    READ_ONLY(Abi.AB_REASON_READ_ONLY),
    /** A named consumer does not take the tensor as it would be shared. */
    CONSUMER(Abi.AB_REASON_CONSUMER);

    final int value;

    Reason(int value) {
        this.value = value;
    }

    /** Those whose bits are set. */
    static Set<Reason> of(int bits) {
        Set<Reason> found = EnumSet.noneOf(Reason.class);
        for (Reason known : values()) {
            if ((bits & known.value) != 0) {
                found.add(known);
            }
        }
        return found;
    }
}
