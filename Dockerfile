# syntax=docker/dockerfile:1
# The one image that holds every Go binary of Rouse that runs in a cluster. Which one runs is the command of the pod.
#
#   docker build --build-arg VERSION=v1.2.3 -t rouse:v1.2.3 .
#
# COMMIT and DATE, the commit and its time, are what the binaries say of themselves: make image gives them.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src

# The modules change less often than the code: a layer of their own.
COPY go.mod go.sum ./
COPY tools/supply/go.mod tools/supply/go.sum tools/supply/
RUN --mount=type=cache,target=/go/pkg/mod go mod download && go mod download -C tools/supply

COPY api api
COPY builder builder
COPY charts charts
COPY cli cli
COPY cmd cmd
COPY controller controller
COPY dashboard dashboard
COPY dev dev
COPY eventbridge eventbridge
COPY gateway gateway
COPY internal internal
COPY registryproxy registryproxy
COPY runtimes runtimes
COPY scaler scaler
COPY tools/supply tools/supply

# The notices of the compiled packages; a licence that is not allowed ends the build.
COPY LICENSE /notices/
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go run -C tools/supply ./licenses -C /src -platforms linux/amd64,linux/arm64 -o /notices/THIRD_PARTY_NOTICES \
    ./cmd/builder ./cmd/controller ./cmd/dashboard ./cmd/eventbridge ./cmd/gateway ./cmd/operator ./cmd/registryproxy ./cmd/scaler

ARG TARGETOS TARGETARCH VERSION=devel COMMIT= DATE=
# The validated FIPS 140-3 module. It is off unless a pod enables it.
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH GOFIPS140=v1.0.0
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir /out && build=github.com/rouse-run/rouse/internal/daemon && \
    go build -trimpath -ldflags "-s -w -X $build.version=${VERSION} -X $build.commit=${COMMIT} -X $build.date=${DATE}" -o /out/ \
    ./cmd/builder ./cmd/controller ./cmd/dashboard ./cmd/eventbridge ./cmd/gateway ./cmd/operator ./cmd/registryproxy ./cmd/scaler

# No shell, no package, no file but ours and the licences. The public CA roots are compiled into the binaries.
FROM scratch
ARG VERSION=devel COMMIT=
LABEL org.opencontainers.image.title="Rouse" \
      org.opencontainers.image.description="Functions on Kubernetes that sleep at zero and wake on the first event" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/rouse-run/rouse" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /notices/ /licenses/
COPY --from=build /out/ /
USER 65532:65532
