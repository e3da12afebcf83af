# One image, two entry points, as ARC's image has them: /manager (controller), /ghalistener.
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg COMMIT_SHA=$(git rev-parse HEAD) .
# A release passes the bases with their digests (--build-arg BASE_IMAGE=...@sha256:...).
# Both bases have the same Python: what is compiled in the first runs in the second.
ARG BUILD_IMAGE=docker.io/library/python:3.11-slim-bookworm
ARG BASE_IMAGE=gcr.io/distroless/python3-debian12:nonroot

# Runs on the target platform, so that pip takes the wheels of that platform by their hashes.
FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY image/ image/
COPY src/ src/
RUN sh image/build.sh /out

FROM ${BASE_IMAGE}
# The release of ARC that this stands in for (app/versions.py), and the commit it was built from.
ARG VERSION=0.14.2
ARG COMMIT_SHA=unknown
LABEL org.opencontainers.image.title="runnerscale" \
      org.opencontainers.image.description="Queued GitHub Actions jobs become ephemeral runners: controller and listener" \
      org.opencontainers.image.source="https://github.com/runnerscale/runnerscale" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT_SHA}"
ENV RUNNERSCALE_COMMIT=${COMMIT_SHA}
COPY --from=build /out/ /
USER 65532:65532
ENTRYPOINT ["/manager"]
