package org.arraybridge;

import java.nio.ByteBuffer;
import java.util.Set;

/**
 * What a call did, or would do.
 *
 * @param route the way that the data took
 * @param reasons everything that ruled out zero copy
 * @param passes times the data is read and written; 0 for zero copy
 * @param bytesRead bytes read of the source, and of any scratch
 * @param bytesWritten bytes written
 * @param scratchBytes peak memory besides source and result
 * @param nanoseconds time of the call; 0 in a plan
 * @param line all of it in one English line
 */
public record Report(
        Route route,
        Set<Reason> reasons,
        int passes,
        long bytesRead,
        long bytesWritten,
        long scratchBytes,
        long nanoseconds,
        String line) {

    /** Whether the result is the source's own memory. */
    public boolean zeroCopy() {
        return route == Route.ZERO_COPY;
    }

    @Override
    public String toString() {
        return line;
    }

    static Report read(Scratch scratch) {
        ByteBuffer memory = scratch.memory;
        int at = Scratch.REPORT;
        return new Report(
                Route.of(memory.getInt(at + Abi.AbReport.ROUTE)),
                Reason.of(memory.getInt(at + Abi.AbReport.REASONS)),
                memory.getInt(at + Abi.AbReport.PASSES),
                memory.getLong(at + Abi.AbReport.BYTES_READ),
                memory.getLong(at + Abi.AbReport.BYTES_WRITTEN),
                memory.getLong(at + Abi.AbReport.SCRATCH_BYTES),
                memory.getLong(at + Abi.AbReport.NANOSECONDS),
                scratch.written("ab_report_describe", at));
    }
}
