#!/bin/sh
# Makes .venv with what the tests need: venv.sh [PYTHON]. Does nothing when it is there already.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ -x "$here/.venv/bin/pytest" ] && exit 0
"${1:-python3}" -m venv "$here/.venv"
"$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$here/requirements-test.txt"
