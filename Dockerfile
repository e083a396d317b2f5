# taskreel as a service. Build: docker build -t taskreel .
# Run:   docker run -p 8080:8080 -v taskreel-log:/var/lib/taskreel -v "$PWD/token:/run/secrets/taskreel-token:ro" taskreel
# docs/serve.md describes tokens, TLS and limits.

ARG RUST_IMAGE=rust:1-slim-bookworm
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${RUST_IMAGE} AS build
WORKDIR /src
# The C compiler of mimalloc, ring and SQLite stands in the image of Rust.
COPY . .
# The revision that `taskreel --version` names, since the image is built without git's directory.
ARG TASKREEL_REVISION
RUN cargo build --locked --profile dist -p taskreel-cli && cp target/dist/taskreel /taskreel

FROM ${BASE_IMAGE}
# A user that owns nothing but the log. Its numbers are fixed, so that a volume keeps its owner.
RUN groupadd --gid 10001 taskreel && \
    useradd --uid 10001 --gid 10001 --home-dir /var/lib/taskreel --create-home --shell /usr/sbin/nologin taskreel
# The certificates by which models, issuers of tokens and other agents are trusted. The base image has none.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /taskreel /usr/local/bin/taskreel
USER 10001:10001
WORKDIR /var/lib/taskreel
ENV TASKREEL_DATA_DIR=/var/lib/taskreel/log \
    TASKREEL_TOKEN_FILE=/run/secrets/taskreel-token
VOLUME ["/var/lib/taskreel"]
EXPOSE 8080
# The server ends in order: requests and calls in flight have 30 seconds.
STOPSIGNAL SIGTERM
# For port 8080 without TLS; a change of either replaces this too (`docker run --health-cmd`).
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["taskreel"]
CMD ["serve", "--listen", "0.0.0.0:8080"]
