# The images, built with a daemon; `make image` writes the same without one, for two platforms and with bills of materials.
#
#   docker build --build-arg VERSION=v1.2.3 -t tailrace:v1.2.3 .
#   docker build --target sink -t tailrace-sink:v1.2.3 .
FROM --platform=$BUILDPLATFORM golang:1.26-alpine AS build
ARG TARGETOS TARGETARCH VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -buildvcs=false -tags grpcnotrace -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /tailrace ./cmd/tailrace && mkdir -m 700 /data

FROM build AS build-sink
ARG TARGETOS TARGETARCH
RUN cd sink && CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -buildvcs=false -tags grpcnotrace -trimpath -ldflags "-s -w" -o /tailrace-sink ./cmd/tailrace-sink

FROM scratch AS sink
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build-sink /tailrace-sink /tailrace-sink
USER 65532:65532
ENTRYPOINT ["/tailrace-sink"]

FROM scratch AS tailrace
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /tailrace /tailrace
COPY --from=build --chown=65532:65532 /data /data
ENV TAILRACE_LISTEN=:4480 TAILRACE_OPS_LISTEN=:4481 TAILRACE_DATA_DIR=/data
VOLUME /data
USER 65532:65532
EXPOSE 4480 4481
ENTRYPOINT ["/tailrace"]
