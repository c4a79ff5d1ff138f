FROM python:3.13-slim AS build
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY controller controller
RUN pip download --require-hashes --only-binary :all: --dest /wheels --requirement constraints.txt \
 && pip wheel --no-index --find-links /wheels --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels gpu-topology
USER 65532:65532
ENTRYPOINT ["gpu-topology"]
