package org.arraybridge;

/** Which casts are allowed. */
public enum Casting {
    /**
     * Any cast. Integers wrap, fractions are cut off, numbers beyond an integer's range become its
     * limit and NaN 0; floats are rounded to nearest, ties to even, and overflow to infinity or,
     * in formats without one, to NaN.
     */
    UNSAFE(Abi.AB_CAST_UNSAFE),
    /** As numpy.can_cast(..., 'same_kind'), with ml_dtypes. */
    SAME_KIND(Abi.AB_CAST_SAME_KIND),
    /** As numpy.can_cast(..., 'safe'), with ml_dtypes. */
    SAFE(Abi.AB_CAST_SAFE),
    /** Any cast, but AB_E_LOSSY if a value is not the same number after it (NaN is NaN, -0 is 0). */
    EXACT(Abi.AB_CAST_EXACT);

    final int value;

    Casting(int value) {
        this.value = value;
    }
}
