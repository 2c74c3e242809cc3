# syntax=docker/dockerfile:1
# The one image that holds every Go binary of Rouse that runs in a cluster. Which one runs is the command of the pod.
#
#   docker build --build-arg VERSION=v1.2.3 -t rouse:v1.2.3 .

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src

# The modules change less often than the code: a layer of their own.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY api api
COPY builder builder
COPY cmd cmd
COPY controller controller
COPY eventbridge eventbridge
COPY gateway gateway
COPY internal internal
COPY registryproxy registryproxy
COPY runtimes runtimes
COPY scaler scaler

ARG TARGETOS TARGETARCH VERSION=devel
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir /out && \
    go build -trimpath -ldflags "-s -w -X github.com/rouse-run/rouse/internal/daemon.version=${VERSION}" -o /out/ \
    ./cmd/builder ./cmd/controller ./cmd/eventbridge ./cmd/gateway ./cmd/operator ./cmd/registryproxy ./cmd/scaler

# No shell, no package, no file but ours. The public CA roots are compiled into the binaries.
FROM scratch
ARG VERSION=devel
LABEL org.opencontainers.image.title="Rouse" \
      org.opencontainers.image.description="Functions on Kubernetes that sleep at zero and wake on the first event" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/rouse-run/rouse" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /out/ /
USER 65532:65532
