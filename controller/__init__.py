"""A Kubernetes operator that keeps a live map of the GPU cards a local AI runtime can use."""

__version__ = "0.1.0"
