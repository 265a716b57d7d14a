"""Makes the test vectors beside this file; README.md describes them.

python make.py          writes them
python make.py --check  writes nothing, names those that differ and exits 1 if any does
"""

import sys
from pathlib import Path

import casts
import dtypes
import layouts

HERE = Path(__file__).resolve().parent


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    files = {}
    for maker in (casts, dtypes, layouts):
        files |= maker.make()
    if arguments:
        differing = [n for n, data in files.items() if not (HERE / n).is_file() or (HERE / n).read_bytes() != data]
        for name in differing:
            print(f"{name} differs from what make.py makes")
        return 1 if differing else 0
    for name, data in files.items():
        (HERE / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
