# Two images from one file:
#
#   docker build --target operator -t rekindle-operator .
#   docker build --target spark    -t rekindle-spark --build-arg SPARK_BASE=REGISTRY/spark:TAG .
#
# SPARK_BASE is any image that keeps the contract of Apache's own: an entry point that takes `driver ...` and
# `executor`, /opt/decom.sh, Python 3.11 or newer with pip (Apache's images before 4.3 have 3.10), and user 185.
ARG PYTHON_BASE=python:3.13-slim
ARG SPARK_BASE=apache/spark:4.3.0-scala2.13-java17-python3-ubuntu

# Dependencies come before the code, so that an edit of the code costs one small layer.
FROM ${PYTHON_BASE} AS dependencies
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
RUN mkdir -p operator/rekindle && touch operator/rekindle/__init__.py \
    && python3 -m venv /opt/rekindle \
    && /opt/rekindle/bin/pip install --no-cache-dir --quiet '.[operator]' \
    && /opt/rekindle/bin/pip uninstall --quiet --yes rekindle \
    && rm -rf operator \
    && find /opt/rekindle -name __pycache__ -type d -prune -exec rm -rf {} +

FROM dependencies AS wheels
COPY CHANGELOG.md ./
COPY operator operator
RUN python3 -m venv /build \
    && /build/bin/pip wheel --no-cache-dir --quiet --no-deps --wheel-dir /wheels .

FROM ${PYTHON_BASE} AS operator
COPY --from=dependencies /opt/rekindle /opt/rekindle
COPY --from=wheels /wheels /tmp/wheels
RUN /opt/rekindle/bin/pip install --no-cache-dir --no-compile --quiet --no-deps /tmp/wheels/*.whl && rm -rf /tmp/wheels
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/opt/rekindle/bin/python", "-m", "rekindle.controller"]

FROM ${SPARK_BASE} AS spark
USER root
# Debian keeps its Python to itself unless told otherwise; PySpark is in the base.
ENV PIP_BREAK_SYSTEM_PACKAGES=1
RUN python3 -c 'import sys; sys.exit("SPARK_BASE: needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)' \
    && python3 -m pip install --no-cache-dir --no-compile --quiet \
      'pyarrow>=18' 'pandas>=2.2,<3' 'numpy>=1.26' 'pydantic>=2.11,<3' 'PyYAML>=6.0' 'rich>=13' 'psutil>=5.9' \
      'obstore>=0.12,<1' 'adbc-driver-manager>=1.13,<2' 'adbc-driver-postgresql>=1.13,<2' \
    && cd "$(python3 -c 'import pyarrow; print(pyarrow.__path__[0])')/.." \
    && rm -rf pyarrow/include pyarrow/tests pandas/tests numpy/*/tests
COPY --from=wheels /wheels /tmp/wheels
RUN python3 -m pip install --no-cache-dir --no-compile --quiet --no-deps /tmp/wheels/*.whl && rm -rf /tmp/wheels
USER 185
