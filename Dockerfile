# The image TIRA runs: pan21av, its compiled kernel and the shipped ensemble; no compiler, no network needed.
#
#   docker build -t pan21av .
#   docker run --rm -v "$PWD/in:/in:ro" -v "$PWD/out:/out" pan21av predict -i /in -o /out
#
# Which torch is a matter of one flag and of pip's own variables; without them, the one pinned in constraints.txt:
#   CPU only, small:          --build-arg TORCH=torch==2.13.0+cpu --build-arg PIP_EXTRA_INDEX_URL=(PyTorch's index "cpu")
#   CUDA 12.6, for old GPUs:  --build-arg TORCH=torch --build-arg PIP_EXTRA_INDEX_URL=(PyTorch's index "cu126")

# Torch first: the largest layer, and the one that changes least.
FROM python:3.11-slim AS base
ARG TORCH=
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
COPY constraints.txt /tmp/
RUN if [ -n "$TORCH" ]; then sed -i '/^torch==/d' /tmp/constraints.txt; fi \
 && pip install -c /tmp/constraints.txt "${TORCH:-torch}" numpy nltk orjson tqdm click safetensors \
 && rm /tmp/constraints.txt

# The kernel is compiled here; only the installed package leaves this stage.
FROM base AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY pan21av pan21av
COPY models models
RUN pip install --no-deps --target /app .

FROM base
LABEL org.opencontainers.image.title="pan21av" \
      org.opencontainers.image.description="Authorship verification: a calibrated probability, or an honest 0.5" \
      org.opencontainers.image.licenses="MIT"
ENV PATH=/app/bin:$PATH PYTHONPATH=/app
COPY --from=build /app /app
ENTRYPOINT ["pan21av"]
