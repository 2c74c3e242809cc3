#!/bin/sh
# Fills OUTDIR with the root file tree of this runtime's image layer.
#
#   layer.sh OUTDIR [NODE ...]
#
# Each NODE is a Node.js binary that will run the server; a code cache is made
# for its version, and it must be able to run here. The default is the node on
# PATH. Files may have any owner if they are readable.
# TARGETARCH is the architecture of the image, amd64 or arm64 (default: this
# machine's). For another architecture no code cache is made, because its CPU
# could not use it.
set -eu

[ $# -ge 1 ] || { echo "usage: $0 OUTDIR [NODE ...]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)
app=$root/usr/src/app
shift
[ $# -gt 0 ] || set -- node

# The second file is npm's record of what it installed.
if [ ! -x "$here/node_modules/.bin/esbuild" ] || [ "$here/package-lock.json" -nt "$here/node_modules/.package-lock.json" ]; then
    (cd "$here" && npm ci --include=dev --no-audit --no-fund)
fi
node "$here/build.js" "$app"
case $(uname -m) in
    x86_64) machine=amd64 ;;
    aarch64) machine=arm64 ;;
    *) machine=$(uname -m) ;;
esac
[ "${TARGETARCH:-$machine}" = "$machine" ] || set --
for node in "$@"; do
    # With random seeds, processes would have different hashes, and so different caches.
    "$node" --random-seed=1 "$here/warm.js" "$app" >/dev/null
done
chmod -R a+rX "$root"
