set -e
[ -w "${HOME:-/}" ] || export HOME=/tmp
if [ -n "${FUNC_HANDLER_SOURCE+x}" ]; then
  printf '{}\n' >package.json
  printf '%s\n' "$FUNC_HANDLER_SOURCE" >handler.js
  if [ -n "$FUNC_HANDLER_DEPENDENCIES" ]; then
    printf '%s\n' "$FUNC_HANDLER_DEPENDENCIES" >package.json
    [ ! -f package-registry-config/.npmrc ] || export NPM_CONFIG_USERCONFIG="$PWD/package-registry-config/.npmrc"
    npm install --prefer-offline --no-audit --progress=false
  fi
fi
cd ..
if [ -f bundles/main.js ] && [ -f server.js ]; then
  # A runtime of Rouse. Its server takes the source from a file, too.
  unset FUNC_HANDLER_SOURCE FUNC_HANDLER_DEPENDENCIES
  exec node --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --disable-warning=ExperimentalWarning server.js
fi
[ ! -f package.json ] || exec npm start
problem="The image of spec.runtimeImageOverride has no server: there is no package.json in $PWD. Use an image whose server npm start \
runs there, or one that is made from a runtime image of Rouse"
echo "$problem" >&2
[ ! -f /dev/termination-log ] || echo "$problem" >/dev/termination-log
exit 1
