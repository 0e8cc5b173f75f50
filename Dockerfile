# Two images from one file:
#
#   docker build --target operator -t rekindle-operator .
#   docker build --target spark    -t rekindle-spark --build-arg SPARK_BASE=apache/spark:4.1.1 .
#
# SPARK_BASE is any image that keeps the contract of Apache's own: an entry point that takes `driver ...` and
# `executor`, /opt/decom.sh, Python 3.11 or newer with pip, and user 185.
ARG PYTHON_BASE=python:3.13-slim
ARG SPARK_BASE=apache/spark:4.1.1-scala2.13-java17-python3-ubuntu

FROM ${PYTHON_BASE} AS wheels
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY operator operator
RUN python3 -m venv /opt/rekindle \
    && /opt/rekindle/bin/pip install --no-cache-dir --quiet '.[operator]' \
    && /opt/rekindle/bin/pip wheel --no-cache-dir --quiet --no-deps --wheel-dir /wheels . \
    && /opt/rekindle/bin/pip uninstall --quiet --yes pip setuptools \
    && find /opt/rekindle -name __pycache__ -type d -prune -exec rm -rf {} +

FROM ${PYTHON_BASE} AS operator
COPY --from=wheels /opt/rekindle /opt/rekindle
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/opt/rekindle/bin/python", "-m", "rekindle.controller"]

FROM ${SPARK_BASE} AS spark
USER root
COPY --from=wheels /wheels /tmp/wheels
# Debian keeps its Python to itself unless told otherwise; PySpark is in the base.
RUN PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir --quiet \
      /tmp/wheels/*.whl 'pyarrow>=18' 'pandas>=2.2,<3' 'numpy>=1.26' \
    && rm -rf /tmp/wheels
USER 185
