# syntax=docker/dockerfile:1
# The program in a small image: `docker build -t servecast .`, then
# `docker run --rm -v "$PWD:/work" -u "$(id -u):$(id -g)" servecast run my.toml`.
# Both stages are of one Debian, so that the C library that the program is linked to is the one that it finds.

FROM rust:1.92-slim-bookworm AS build
WORKDIR /source
# What .dockerignore lets in.
COPY . .
ARG FEATURES=default
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --locked --release --bin servecast --no-default-features --features "$FEATURES" \
    && cp target/release/servecast /servecast \
    && mkdir /work

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /servecast /usr/local/bin/servecast
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/servecast/
COPY --from=build --chown=nonroot:nonroot /work /work
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/servecast"]
