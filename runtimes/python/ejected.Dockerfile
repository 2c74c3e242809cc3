# All that the Function needs is in this folder, and in packages that pip installs.
ARG BASE_IMAGE=python:%s-slim

FROM ${BASE_IMAGE} AS server
WORKDIR /src
COPY runtime/ .
RUN sh ./layer.sh /layer

FROM ${BASE_IMAGE} AS source
WORKDIR /kubeless
COPY source/ .
RUN if [ -f requirements.txt ]; then python3 -m pip install --target .local -r requirements.txt; fi

FROM ${BASE_IMAGE}
COPY --from=server /layer/ /
COPY --from=source /kubeless/ /kubeless/
ENV PYTHONUNBUFFERED=TRUE PYTHONDONTWRITEBYTECODE=1
USER 1000:1000
WORKDIR /kubeless
EXPOSE 8080
ENTRYPOINT ["python3", "-P", "-s", "/usr/src/app/main.py"]
