"""Every version that the test cluster is made of, and nothing else.

etcd and CoreDNS must be the ones that kubeadm of this Kubernetes asks for: the image build compares them.
"""

KUBERNETES = "v1.36.3"
ETCD = "v3.6.8"
COREDNS = "v1.14.2"
CONTAINERD = "v2.3.4"
METRICS_SERVER = "v0.7.2"
HELM = "v3.18.6"
KIND = "v0.33.0"
PROMETHEUS_OPERATOR = "v0.92.0"
"""Of its kinds; the operator itself is not run."""
KIND_IMAGE = "kindest/node:v1.37.0"
"""The nodes where an image registry can be reached: the default of this kind."""

GO_OLDEST = (1, 21)
"""The first Go that fetches a newer one by itself where a module asks for it."""
GO = "1.26.8"
"""Fetched through the module proxy where there is no Go, or an older one."""

DEBIAN = "bookworm"
DEBIAN_IMAGE = "debian:bookworm-slim"
"""The base of images where a registry can be reached; debootstrap makes it elsewhere."""
JAVA = "openjdk-17-jre-headless"
PYSPARK = "4.3.0"
