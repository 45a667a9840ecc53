"""The models of `benchmarks/graphs.py`: seeded networks exported here, models that wheels bring, and what runs them."""
