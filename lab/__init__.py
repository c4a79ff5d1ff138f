"""The lab of the design contract on one machine: a control plane, a Prometheus, GPU hosts, and a day of their lives.

Everything is real but the GPU hosts, and everything listens on the loopback network alone. The folder needs nothing but
the standard library, so that its tools can be built while the operator's dependencies are still being installed.
"""
