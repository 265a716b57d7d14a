#!/usr/bin/env bash
# Makes the PTX from kernels.cu with clang 14, which needs nothing of NVIDIA's: `regen.sh` into this folder,
# `regen.sh FOLDER` elsewhere. PTX for sm_50 is version 4.0, which every driver since CUDA 6 compiles for
# every device since Maxwell. A module is a file, and what is compiled when the first of its kernels is used.
# The same clang gives the same bytes.
set -euo pipefail
to=$(realpath "${1:-$(dirname "$0")}")
cd "$(dirname "$0")"
clang=${CLANG:-clang-14}

module() { # name, what is in it
  "$clang" -x cuda --cuda-device-only --cuda-gpu-arch=sm_50 -nocudainc -nocudalib -O3 \
    -mllvm -unroll-runtime=false -Wall -Wextra -Werror -D "AB_MODULE=$2" -S -o - kernels.cu |
    # What only tells where a line comes from.
    sed -e 's/[ \t]*\/\/.*$//' -e '/^[ \t]*$/d' >"$to/$1.ptx.new"
  mv "$to/$1.ptx.new" "$to/$1.ptx"
}

module moves AB_MOVES
module pack AB_PACK_ANY
for kind in i l u f d; do
  module "cast_$kind" "AB_CAST_KIND($kind)"
  module "cast_${kind}_any" "AB_CAST_ANY($kind)"
  module "transpose_$kind" "AB_TRANSPOSE_KIND($kind)"
  module "transpose_${kind}_any" "AB_TRANSPOSE_ANY($kind)"
done
