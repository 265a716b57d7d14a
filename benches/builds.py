"""Builds of arraybridge beside each other: each case is done by all of them in turn, in one process and into one memory,
beside memcpy. Ratios are times as fast as the first, of two times of one round, with their quartiles; more is better.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from pathlib import Path

import bench
from bench import ALL, Key, Library, Memory, Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", type=Path, nargs="+", metavar="LIBRARY", help="the first is what others are compared to")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--filter", metavar="REGEX", help="cases whose group/name it is found in")
    parser.add_argument("--threads", default="1,all", help="1, all, a number, or several: 1,all (the default)")
    parser.add_argument("--repeat", type=int, default=7, metavar="N", help="at least N rounds (default 7)")
    parser.add_argument("--helper", default="target/bench/libhelper.so", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    threads = sorted({ALL if t == "all" else int(t) for t in arguments.threads.split(",")})
    libraries = []
    for build in arguments.builds:
        os.environ["ARRAYBRIDGE_LIBRARY"] = str(build.resolve())
        libraries.append(Library(arguments.helper, threads))
    memory, gains = Memory(), {(t, i): [] for t in threads for i in range(1, len(libraries))}
    print(f"{'':52} threads  us of the first  times as fast: " + ", ".join(b.name for b in arguments.builds[1:]))
    for case in bench.cases(arguments.quick):
        if arguments.filter and not re.search(arguments.filter, case.id):
            continue
        each = [bench.contestants(case, memory, library, threads)[0] for library in libraries]
        for t in threads:
            runs: dict[Key, Run] = {("memcpy", "reused", t): each[0]["memcpy", "reused", t]}
            runs |= {("arraybridge", str(i), t): of["arraybridge", "reused", t] for i, of in enumerate(each)}
            times = bench.measure(runs, arguments.repeat, bench.SAMPLE_NS, libraries[0].core, case.cold)
            first, columns = times["arraybridge", "0", t], []
            for i in range(1, len(libraries)):
                median, low, high = bench.ratio(first, times["arraybridge", str(i), t])
                gains[t, i].append(median)
                columns.append(f"{median:.2f} [{low:.2f}-{high:.2f}]")
            print(f"{case.id:52} {t:7} {bench.spread(first)[0] / 1000:16.2f}  " + "  ".join(columns), flush=True)
    for (t, i), ratios in gains.items():
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{arguments.builds[i].name}, {t} threads: {mean:.3f} in the mean of {len(ratios)}")


if __name__ == "__main__":
    main()
