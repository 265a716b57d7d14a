package org.arraybridge;

import static org.arraybridge.Tests.equal;
import static org.arraybridge.Tests.that;
import static org.arraybridge.Tests.thrown;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

final class SegmentsTest {
    private SegmentsTest() {}

    static void testSegmentsAreShared() {
        Arena arena = Arena.ofConfined();
        MemorySegment numbers = arena.allocate(24, 8);
        for (int index = 0; index < 6; index++) {
            numbers.setAtIndex(ValueLayout.JAVA_FLOAT, index, index);
        }
        Tensor tensor = Segments.wrap(numbers, Dims.of(2, 3).dtype("float32")).convert();
        that(tensor.report().zeroCopy(), "a copy");
        MemorySegment view = Segments.segment(tensor);
        equal(view.byteSize(), 24L);
        view.setAtIndex(ValueLayout.JAVA_FLOAT, 5, 50);
        equal(numbers.getAtIndex(ValueLayout.JAVA_FLOAT, 5), 50f);
        Tensor copy = tensor.copy();
        MemorySegment kept = Segments.segment(copy);
        copy.close();
        arena.close();
        equal(kept.getAtIndex(ValueLayout.JAVA_FLOAT, 5), 50f);
        thrown(IllegalStateException.class, "closed", tensor::copy);
        tensor.close();
    }

    static void testWrongSegments() {
        thrown(
                IllegalArgumentException.class,
                "on the heap",
                () -> Segments.wrap(MemorySegment.ofArray(new float[3])));
        MemorySegment bytes = Arena.ofAuto().allocate(8, 8);
        equal(Segments.wrap(bytes).dtype().toString(), "uint8");
        thrown(IllegalArgumentException.class, "of a buffer of 8", () -> Segments.wrap(bytes, Dims.of(9)));
        Tensor readOnly = Segments.wrap(bytes.asReadOnly());
        that(Segments.segment(readOnly).isReadOnly(), "writable");
        equal(Segments.segment(Segments.wrap(bytes, Dims.of(0))).byteSize(), 0L);
    }
}
