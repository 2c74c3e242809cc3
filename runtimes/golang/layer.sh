#!/bin/sh
# Fills OUTDIR with the root file tree of this runtime's image layer.
#
#   layer.sh OUTDIR [GO [ROOT]]
#
# GO is the go command of the image, or one of the same version (default: go).
# ROOT is the later root of the tree (default: /). The server is compiled in
# advance only for an image, which saves each build the standard library: a
# machine has its own cache. Files may have any owner if they are readable.
# TARGETARCH is the architecture of the image, amd64 or arm64
# (default: this machine's).
set -eu

[ $# -ge 1 ] && [ $# -le 3 ] || { echo "usage: $0 OUTDIR [GO [ROOT]]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)
app=$root/usr/src/app
go=${2:-go}

# The module of the server, as handlers import it.
mkdir -p "$app/runtimes/golang/function/crash" "$root/function"
cp "$here"/function/*.go "$app/runtimes/golang/function/"
cp "$here"/function/crash/*.go "$app/runtimes/golang/function/crash/"
printf 'module github.com/rouse-run/rouse\n\ngo 1.26\n' >"$app/go.mod"

if [ "${3:-/}" = / ]; then
    mkdir -p "$root/usr/local/go" "$root/usr/local/bin"
    # All modules come from a proxy.
    printf 'GOPROXY=https://proxy.golang.org\nGOSUMDB=sum.golang.org\nGOTOOLCHAIN=local\n' >"$root/usr/local/go/go.env"
    ln -sf ../go/bin/go "$root/usr/local/bin/go"
    (
        cd "$app"
        [ -z "${TARGETARCH:-}" ] || export GOARCH="$TARGETARCH"
        # Without an index of the toolchain's folders, which contains their paths and times.
        export GODEBUG=goindex=0
        export CGO_ENABLED=0 GOFLAGS=-mod=mod GOWORK=off GOTOOLCHAIN=local GOENV=off GOCACHE="$app/cache"
        "$go" build -trimpath -buildvcs=false ./... \
            archive/zip compress/gzip database/sql encoding/csv encoding/xml expvar hash/crc32 html/template image/png log/slog \
            math/big net/smtp net/rpc os/exec text/tabwriter time/tzdata
        # The time of each result, twenty characters, which is not needed here.
        find "$app/cache" -name '*-a' -exec sed -i -E 's/ +[0-9]+$/                    0/' {} +
        # The cache's file has the time of the last clean-up in its first line, which would differ from layer to layer.
        rm -f "$app/cache/trim.txt" "$app/cache/README"
    )
fi
chmod -R a+rX "$root"
