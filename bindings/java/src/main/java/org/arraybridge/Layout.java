package org.arraybridge;

/** The order of a result's elements. */
public enum Layout {
    /** Zero copy keeps the strides; a new tensor is row-major. */
    ANY(Abi.AB_LAYOUT_ANY),
    /** Row-major. */
    C(Abi.AB_LAYOUT_C),
    /** Column-major. */
    F(Abi.AB_LAYOUT_F),
    /** Zero copy keeps the strides; a new tensor is dense in the source's own axis order. */
    KEEP(Abi.AB_LAYOUT_KEEP);

    final int value;

    Layout(int value) {
        this.value = value;
    }
}
