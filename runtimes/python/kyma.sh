set -e
[ -w "${HOME:-/}" ] || export HOME=/tmp
python=python
command -v python >/dev/null || python=python3
packages=$PWD/.local
if [ -n "${FUNC_HANDLER_SOURCE+x}" ]; then
  printf '\n' >requirements.txt
  printf '%s\n' "$FUNC_HANDLER_SOURCE" >handler.py
  if [ -n "$FUNC_HANDLER_DEPENDENCIES" ]; then
    printf '%s\n' "$FUNC_HANDLER_DEPENDENCIES" >requirements.txt
    [ ! -f package-registry-config/pip.conf ] || export PIP_CONFIG_FILE="$PWD/package-registry-config/pip.conf"
    "$python" -m pip install --target="$packages" --no-cache-dir -r requirements.txt
  fi
fi
cd ..
if [ -f usr/src/app/function_server/__init__.py ] && [ -f usr/src/app/main.py ]; then
  # A runtime of Rouse. Its server takes the source from a file, too.
  unset FUNC_HANDLER_SOURCE FUNC_HANDLER_DEPENDENCIES
  exec "$python" -P -s usr/src/app/main.py
fi
export PYTHONPATH="$packages${PYTHONPATH:+:$PYTHONPATH}"
for server in kubeless.py server.py; do
  [ ! -f "$server" ] || exec "$python" "$server"
done
problem="The image of spec.runtimeImageOverride has no server: there is neither server.py nor kubeless.py in $PWD. Add one, or use an \
image that is made from a runtime image of Rouse"
echo "$problem" >&2
[ ! -f /dev/termination-log ] || echo "$problem" >/dev/termination-log
exit 1
