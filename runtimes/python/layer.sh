#!/bin/sh
# Fills OUTDIR with the root file tree of this runtime's image layer.
#
#   layer.sh OUTDIR [PYTHON [ROOT]]
#
# PYTHON is the interpreter that will run the server, or one of the same minor
# version, and it must be able to run here (default: python3). Packages and
# bytecode are for its version. If it has no pip, the python3 on PATH must have
# pip. ROOT is the later root of the tree (default: /). Files may have any owner
# if they are readable.
# TARGETARCH is the architecture of the image, amd64 or arm64, for which
# packages are selected (default: this machine's). Bytecode is the same for all.
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: $0 OUTDIR [PYTHON [ROOT]]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/kubeless" "$1/usr/src/app"
root=$(cd "$1" && pwd)
app=$root/usr/src/app
python=${2:-python3}

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
pip=$python
"$python" -m pip --version >/dev/null 2>&1 || pip=python3
case ${TARGETARCH:-} in
    amd64) machine=x86_64 ;;
    arm64) machine=aarch64 ;;
    *) machine= ;;
esac
platforms=
[ -z "$machine" ] || [ "$machine" = "$(uname -m)" ] ||
    platforms="--platform manylinux2014_$machine --platform manylinux_2_17_$machine --platform manylinux_2_28_$machine"
# shellcheck disable=SC2086 # each is a word
"$pip" -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --no-compile --no-deps --upgrade --require-hashes \
    --only-binary=:all: --python-version "$version" $platforms --target "$app/site-packages" -r "$here/requirements.txt"
# The programs of packages, and their checksums in pip's records: they contain the path of this machine's interpreter.
rm -rf "$app/site-packages/bin"
find "$app/site-packages" -path '*.dist-info/RECORD' -exec sed -i '/^\.\.\/\.\.\/bin\//d' {} +

cp "$here/main.py" "$here/sdk.py" "$app/"
(cd "$here" && find function_server -name '*.py') | while read -r file; do
    install -D -m 644 "$here/$file" "$app/$file"
done

# unchecked-hash: at start no source file is checked. -s and -p give the
# bytecode the paths that the files will have. Sets in it are in the order of
# their hashes, which differ from one process to the next without a seed.
PYTHONHASHSEED=0 "$python" -m compileall -q -f --invalidation-mode unchecked-hash -s "$root" -p "${3:-/}" "$app"
chmod -R a+rX "$root"
