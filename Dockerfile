# The image TIRA runs: pan21av, its compiled kernel and the shipped ensemble; no compiler, no network needed.
#
#   docker build -t pan21av .
#   docker run --rm -v "$PWD/in:/in:ro" -v "$PWD/out:/out" pan21av predict -i /in -o /out
#
# That takes the torch that constraints.txt pins, from PyPI. PyTorch's own package index has others; INDEX must hold its
# address: the one that ends in /cpu for a small image without CUDA, the one that ends in /cu126 for old GPUs.
#
#   docker build -t pan21av --build-arg TORCH=torch==2.13.0+cpu --build-arg PIP_EXTRA_INDEX_URL="$INDEX" .
#   docker build -t pan21av --build-arg TORCH=torch --build-arg PIP_EXTRA_INDEX_URL="$INDEX" .
#
# An ensemble of your own, in models/mine, as the one that answers; for TIRA, which passes no arguments, write it into
# the line ARG MODELS below:
#
#   docker build -t pan21av --build-arg MODELS=mine .

# What to install is written in pyproject.toml alone. In a stage of its own, so that only another list, and no other
# change of that file, makes the next stage anew.
FROM python:3.11-slim AS list
COPY pyproject.toml /
RUN python -c 'import tomllib; print(*tomllib.load(open("/pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
 > /list.txt

# Torch and the other libraries: the largest layer, and the one that changes least.
FROM python:3.11-slim AS base
ARG TORCH=
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
COPY --from=list /list.txt /tmp/
COPY constraints.txt /tmp/
RUN if [ -n "$TORCH" ]; then sed -i '/^torch==/d' /tmp/constraints.txt; fi \
 && pip install -c /tmp/constraints.txt -r /tmp/list.txt ${TORCH:+"$TORCH"} \
 && rm /tmp/constraints.txt /tmp/list.txt

# The kernel is compiled here; only the installed package leaves this stage.
FROM base AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY models models
COPY pan21av pan21av
RUN pip install --no-deps --target /app .

FROM base
LABEL org.opencontainers.image.title="pan21av" \
      org.opencontainers.image.description="Authorship verification: a calibrated probability, or an honest 0.5" \
      org.opencontainers.image.licenses="MIT"
ARG MODELS=default
ENV PATH=/app/bin:$PATH PYTHONPATH=/app PAN21AV_MODELS=$MODELS
COPY --from=build /app /app
ENTRYPOINT ["pan21av"]
