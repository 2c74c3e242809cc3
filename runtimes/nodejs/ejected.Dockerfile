# All that the Function needs is in this folder, and in packages that npm installs.
ARG BASE_IMAGE=node:%s-bookworm-slim

FROM ${BASE_IMAGE} AS server
WORKDIR /src
COPY runtime/ .
RUN sh ./layer.sh /layer

FROM ${BASE_IMAGE} AS source
WORKDIR /usr/src/app/function
COPY source/ .
RUN if [ -f package-lock.json ]; then npm ci --omit=dev; elif [ -f package.json ]; then npm install --omit=dev; fi

FROM ${BASE_IMAGE}
COPY --from=server /layer/ /
COPY --from=source /usr/src/app/function/ /usr/src/app/function/
ENV NODE_ENV=production
USER 1000:1000
WORKDIR /usr/src/app/function
EXPOSE 8080
ENTRYPOINT ["node", "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--disable-warning=ExperimentalWarning", "/usr/src/app/server.js"]
