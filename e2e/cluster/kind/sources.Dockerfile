# What the e2e tests fetch sources and packages from. They bring the configuration, the content and the keys.
FROM docker.io/library/debian:trixie-slim
ARG PACKAGES
RUN apt-get update && apt-get install --yes --no-install-recommends ${PACKAGES} && \
    rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* && echo git:x:1000:1000::/srv:/bin/sh >>/etc/passwd
