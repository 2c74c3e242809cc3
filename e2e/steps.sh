# Functions shared by the scripts that run end-to-end tests; they run at the root of the repository.
cluster() { if [[ "${ROUSE_CLUSTER:-local}" == kind ]]; then e2e/kind.sh "$@"; else go run -C e2e/cluster . "$@"; fi; }

# A step has a separate process group: when this script is terminated, the step and all its processes end first, so that
# they do not interfere with the clean-up.
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

# own is the kubeconfig of a cluster of the user, or empty.
own=${KUBECONFIG:-}
# The output of `env` names the cluster of this repository, which does not belong to a user.
state=/var/lib/rouse-cluster
if [[ "${ROUSE_CLUSTER:-local}" == kind ]]; then state=${ROUSE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rouse}/kind; fi
if [[ "$own" == "${ROUSE_STATE:-$state}/kubeconfig" ]]; then own=; fi
