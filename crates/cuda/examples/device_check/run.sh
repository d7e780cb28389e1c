#!/bin/bash
# Runs the packed checks on a machine with a GPU, which needs NVIDIA's driver, NVRTC, python3 and xz, and has no Rust toolchain. PyTorch's
# times are printed where `FLAMBEAU_TORCH` names a Python that has it.
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
python3 - "$here" "$work" <<'END'
import lzma, os, sys, tarfile
here, work = sys.argv[1:]
with lzma.open(os.path.join(here, "device_check.xz")) as packed, open(os.path.join(work, "device_check"), "wb") as out:
    out.write(packed.read())
os.chmod(os.path.join(work, "device_check"), 0o755)
cache = os.path.join(here, "cache.tar.xz")
if os.path.exists(cache):
    with tarfile.open(cache) as packed:
        packed.extractall(work)
END
export FLAMBEAU_CACHE=$work RUST_BACKTRACE=1
"$work/device_check" "$@"
status=$?
if [ $# -eq 0 ]; then
    echo "== without cuBLAS"
    FLAMBEAU_CUDA_BLAS=own "$work/device_check" training speed || status=1
fi
if [ -n "$FLAMBEAU_TORCH" ]; then
    "$FLAMBEAU_TORCH" "$here/torch_speed.py"
fi
rm -rf "$work"
exit $status
