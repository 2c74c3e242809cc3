#!/usr/bin/env bash
# The cluster of CLUSTER=kind: kind's Kubernetes in Docker, with KEDA, a registry and Rouse. It has the commands of e2e/cluster, which
# runs commands that are the same for both, such as assets. See e2e/cluster/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
unset ROUSE_CLUSTER # what it has e2e/cluster do is not of kind

name=rouse
node=$name-control-plane
keda=2.21.0 # the one that e2e/cluster builds
state=${ROUSE_STATE:-${ROUSE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rouse}/kind}
config=$state/kubeconfig
runtimes=${ROUSE_RUNTIMES:-nodejs22,nodejs26,python312,python314,go126}
# The registry of the runtimes' images for builds of Functions: a Service in the unassigned part of kind's range.
registry=registry.kube-system.svc.cluster.local:5000
address=10.96.0.50
# An image with an attestation has parts that docker does not save but containerd requires.
export DOCKER_BUILDKIT=1 BUILDX_NO_DEFAULT_ATTESTATIONS=1

local_cluster() { exec env ROUSE_STATE="$state" go run -C e2e/cluster . "$@"; }
step() { echo "==> $*" >&2; }
fail() { echo "CLUSTER=kind: $*" >&2; exit 1; }
k() { kubectl --kubeconfig "$config" "$@"; }
ready() { k --namespace "$1" rollout status "$2" --timeout=10m; }
running() { command -v kind >/dev/null && kind get clusters 2>/dev/null | grep -qx "$name"; }

preflight() {
  local lacks=()
  works() { "${@:2}" >/dev/null 2>&1 || lacks+=("\`${*:2}\` does not work: $1"); }
  works "install Docker Engine (https://docs.docker.com/engine/install), start its daemon, and let this user reach it" docker version
  works "install Docker's plugin buildx" docker buildx version
  works "go install sigs.k8s.io/kind@latest, and add \$(go env GOPATH)/bin to PATH" kind version
  works "see https://kubernetes.io/docs/tasks/tools" kubectl version --client
  works "see https://go.dev/doc/install" go version
  works "install OpenSSL" openssl version
  ((${#lacks[@]} == 0)) || fail "this machine lacks something (CLUSTER=local, the default, needs neither Docker nor kind):$(printf '\n- %s' "${lacks[@]}")"
}

# build builds an image and prints a reference that changes with its content.
build() {
  local id
  id=$(docker build --quiet --load "${@:2}")
  id=${id#sha256:}
  docker tag "$id" "$1:${id:0:12}"
  echo "$1:${id:0:12}"
}

# create creates the nodes. containerd does not resolve the registry with the cluster's DNS, so files configure its address. Of several
# nodes, the first runs no pods.
create() {
  local pki=$state/pki hosts=$state/hosts mounts role=control-plane
  mkdir -p "$pki" "$hosts/$registry"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=rouse-kind \
    -addext "subjectAltName=DNS:${registry%:*},IP:$address" -keyout "$pki/registry.key" -out "$pki/registry.crt" 2>/dev/null
  printf 'server = "%s"\n[host."%s"]\n  capabilities = ["pull", "resolve", "push"]\n  ca = "/etc/rouse-pki/registry.crt"\n' \
    "https://$address:5000" "https://$address:5000" >"$hosts/$registry/hosts.toml"
  mounts="  extraMounts:
  - {hostPath: \"$hosts\", containerPath: /etc/containerd/certs.d, readOnly: true}
  - {hostPath: \"$pki\", containerPath: /etc/rouse-pki, readOnly: true}"
  cat >"$state/kind.yaml" <<EOF
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking: {serviceSubnet: 10.96.0.0/16, kubeProxyMode: iptables}
containerdConfigPatches:
- |
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "/etc/containerd/certs.d"
nodes:
EOF
  for ((n = 0; n < ${NODES:-1}; n++)); do
    printf -- '- role: %s\n%s\n' "$role" "$mounts" >>"$state/kind.yaml"
    role=worker
  done
  kind create cluster --name "$name" --config "$state/kind.yaml" --kubeconfig "$config" --wait 5m
}

# load loads images that the first node does not have into the nodes.
load() {
  local listed missing=()
  listed=$(docker exec "$node" ctr --namespace k8s.io images list --quiet)
  for image in "$@"; do grep -qxF "$image" <<<"$listed" || missing+=("$image"); done
  ((${#missing[@]})) || return 0
  docker save --output "$state/images.tar" "${missing[@]}"
  kind load image-archive "$state/images.tar" --name "$name"
  rm -f "$state/images.tar"
}

install_addons() {
  sed -e 's|{{.Registry}}|docker.io/library/registry:3|' -e "s|{{.RegistryAddress}}|$address|" -e 's|{{.RegistryData}}|/var/lib/rouse-registry|' \
    -e 's|{{.RegistryCertificate}}|/etc/rouse-pki/registry.crt|' -e 's|{{.RegistryKey}}|/etc/rouse-pki/registry.key|' \
    e2e/cluster/local/manifests/addons/registry.yaml | k apply --server-side --force-conflicts -f -
  ready kube-system deployment/registry
  for image in "${offered[@]}"; do
    docker exec "$node" ctr --namespace k8s.io images push --hosts-dir /etc/containerd/certs.d "$image"
  done
  k apply --server-side --force-conflicts -f "https://github.com/kedacore/keda/releases/download/v$keda/keda-$keda.yaml"
  ready keda deployment/keda-operator
  ready keda deployment/keda-metrics-apiserver
  k wait --for=condition=Available apiservice/v1beta1.external.metrics.k8s.io --timeout=10m
}

# values prints the chart's values, as in e2e/cluster/rouse; the machine may be behind a TLS proxy with an authority that builds must trust.
values() {
  cat <<EOF
image: {repository: "${rouse%:*}", tag: "${rouse##*:}"}
controller: {defaultProfile: L}
logLevel: debug
scaling: {initialCooldownPeriodSeconds: 5}
gateway: {graceSeconds: 3}
apiRules: {enabled: true, domains: {rouse-system/entrance: rouse.test}}
runtimes:
EOF
  while read -r runtime _; do echo "  $runtime: ${offered[$runtime]:-null}"; done <<<"$officials"
  echo "caBundle: |"
  { cat "$state/pki/registry.crt" /etc/ssl/certs/ca-certificates.crt 2>/dev/null || true; } | sed 's/^/  /'
}

install_rouse() {
  go build -C tools -o "$state/tools/helm" helm.sh/helm/v3/cmd/helm
  k apply --server-side --force-conflicts -f - <<EOF
{apiVersion: v1, kind: ConfigMap, metadata: {name: rouse-fixtures, namespace: kube-system}, data: {source-server: "$sources"}}
EOF
  # A killed helm leaves a pending release, and later ones refuse to start.
  k --namespace rouse-system delete secrets --selector "owner=helm,name=rouse,status in (pending-install,pending-upgrade,pending-rollback)"
  values >"$state/values.yaml"
  KUBECONFIG=$config "$state/tools/helm" upgrade --install rouse charts/rouse --namespace rouse-system --create-namespace \
    --values "$state/values.yaml" --wait --timeout 8m
}

up() {
  [[ "${NATS_REPLICAS:-1}" == 1 ]] || fail "NATS_REPLICAS: there is one NATS server, the chart's"
  [[ $# == 0 || "$*" == --bare ]] || fail "of the flags of up there is --bare alone"
  preflight
  local rouse sources officials runtime image
  declare -A offered=()
  step "build images"
  rouse=$(build rouse.local/rouse --build-arg VERSION=local .)
  sources=$(build rouse.local/source-server - <<'EOF'
# The servers of sources and packages for the e2e tests. The tests supply the configuration, the content and the keys.
FROM docker.io/library/debian:trixie-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates git openssh-server lighttpd lighttpd-mod-openssl && \
    rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* && echo git:x:1000:1000::/srv:/bin/sh >>/etc/passwd
EOF
)
  officials=$(go run -C e2e/cluster . officials)
  while read -r runtime image; do
    [[ ",$runtimes," == *",$runtime,"* ]] || continue
    local folder=${runtime%%[0-9]*}
    offered[$runtime]=$(build "$registry/rouse-runtime-$runtime" --build-arg BASE_IMAGE="$image" "runtimes/${folder/#go/golang}")
  done <<<"$officials"
  mkdir -p "$state"
  if ! running; then
    step "kind create cluster"
    # A cluster that failed to start is deleted; a cluster that ran before is kept.
    trap '[[ $? == 0 ]] || { step "failed, the cluster is taken down"; down; }' EXIT
    create
  fi
  step "load images"
  load "$rouse" "$sources" "${offered[@]}"
  step "registry and KEDA"
  install_addons
  if [[ "$*" != --bare ]]; then
    step "Rouse"
    install_rouse
  fi
}

down() {
  kind delete cluster --name "$name" --kubeconfig "$config"
  rm -rf "$state" # images stay with docker
}

# A cluster of the user is checked, not created.
if [[ -n "${KUBECONFIG:-}" && "$KUBECONFIG" != "$config" ]]; then local_cluster "$@"; fi
case "${1:-}" in
  up | down | preflight) "$@" ;;
  status)
    running || fail "the cluster does not run; bring it up first"
    k get pods --all-namespaces --request-timeout=5s
    ;;
  env)
    running || fail "the cluster does not run; bring it up first"
    printf "export KUBECONFIG='%s'\nexport PATH='%s':\"\$PATH\"\n" "$config" "$state/tools"
    ;;
  leftovers)
    left=$(docker ps --all --filter "label=io.x-k8s.kind.cluster=$name" --format 'container {{.Names}}' 2>/dev/null || true)
    [[ ! -e "$state" ]] || left+="${left:+$'\n'}directory $state"
    [[ -z "$left" ]] || { echo "$left"; exit 1; }
    ;;
  packages) echo "With kind no packages are installed. The tests need a C compiler, and Python's venv and pip." >&2 ;;
  programs) ;; # Docker builds them as part of up
  cut | mend) fail "no node of kind's can be cut off" ;;
  *) local_cluster "$@" ;;
esac
