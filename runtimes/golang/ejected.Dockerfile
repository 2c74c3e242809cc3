# All that the Function needs is in this folder, and in modules that go fetches.
ARG BASE_IMAGE=golang:%s-bookworm

FROM ${BASE_IMAGE} AS build
WORKDIR /src
COPY . .
WORKDIR /src/main
RUN CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod go build -trimpath -ldflags="-s -w" -o /function/server .

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /function/server /function/server
USER 1000:1000
WORKDIR /function
EXPOSE 8080
ENTRYPOINT ["/function/server"]
