"""What benchmarks/kernels.py measures: the cases, the peers, and how they are timed."""
