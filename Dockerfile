# The command line with all formats, and with kernels that are already compiled.
#
#   docker build -t nlridge .
#   docker run --rm -v "$PWD:/data" nlridge denoise photo.jpg
ARG TARGETARCH=amd64

FROM python:3.13-slim AS installed
COPY pyproject.toml README.md LICENSE /source/
COPY packaging/*.py /source/packaging/
COPY src /source/src
RUN pip install --no-cache-dir "/source[formats,heif,raw,video,zarr]"

# One kind of CPU for everybody: kernels that are compiled here run, and are found, wherever the image does.
FROM installed AS cpu-amd64
ENV NUMBA_CPU_NAME=x86-64-v3 \
    NUMBA_CPU_FEATURES=+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave
FROM installed AS cpu-arm64
ENV NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=+neon

FROM cpu-${TARGETARCH}
ENV NUMBA_CACHE_DIR=/var/cache/nlridge
# Numba uses a cache only if it may write to it, which holds for every --user then.
RUN --mount=type=bind,source=packaging/docker,target=/source/docker \
    python /source/docker/compile_kernels.py && chmod -R a+rwX /var/cache/nlridge
WORKDIR /data
ENTRYPOINT ["nlridge"]
CMD ["--help"]
