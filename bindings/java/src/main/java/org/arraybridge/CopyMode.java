package org.arraybridge;

/** When a conversion copies. */
public enum CopyMode {
    /** Copy only where zero copy is impossible. */
    IF_NEEDED(Abi.AB_COPY_IF_NEEDED),
    /** Always make new memory. */
    ALWAYS(Abi.AB_COPY_ALWAYS),
    /** AB_E_COPY_REQUIRED rather than a copy. */
    NEVER(Abi.AB_COPY_NEVER);

    final int value;

    CopyMode(int value) {
        this.value = value;
    }
}
