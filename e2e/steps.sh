# What the scripts that run end-to-end tests share; they are at the root of the repository.
cluster() { if [[ "${ROUSE_CLUSTER:-local}" == kind ]]; then e2e/kind.sh "$@"; else go run -C e2e/cluster . "$@"; fi; }

# A step has a process group of its own: when this script is terminated, the step and all it started end first, so that
# nothing works against the clean-up.
set -m
step=
run() {
  "$@" &
  step=$!
  wait "$step"
  step=
}
interrupted() {
  if [[ -n "$step" ]]; then
    kill -TERM -- "-$step" 2>/dev/null || true
    for ((tries = 0; tries < 600; tries++)); do
      kill -0 -- "-$step" 2>/dev/null || break
      sleep 0.2
    done
  fi
  exit 143
}
trap interrupted INT TERM HUP

# own is the kubeconfig of a cluster of the user's own, or nothing.
own=${KUBECONFIG:-}
# What `env` printed names the cluster of this repository, which no user keeps.
state=/var/lib/rouse-cluster
if [[ "${ROUSE_CLUSTER:-local}" == kind ]]; then state=${ROUSE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rouse}/kind; fi
if [[ "$own" == "${ROUSE_STATE:-$state}/kubeconfig" ]]; then own=; fi
