#!/bin/sh
# Creates .venv with the packages of the tests: venv.sh [PYTHON]. Does nothing if a complete one exists that was created by this
# Python, at this path, from these requirements.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
python=${1:-python3}
requirements=$here/requirements-test.txt
made_of=$("$python" -c 'import sys; print(sys.base_prefix, sys.version)'; echo "$here"; cat "$requirements")

# Written last.
mark=$here/.venv/made-of
[ -x "$here/.venv/bin/python" ] && [ "$(cat "$mark" 2>/dev/null)" = "$made_of" ] && exit 0

"$python" -c 'import ensurepip, venv' 2>/dev/null || {
    echo "$python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2
    exit 1
}
"$python" -m venv --clear "$here/.venv"
"$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
printf '%s\n' "$made_of" >"$mark"
