"""What `benchmarks/index_maps.py` asks of each library, and how the answers are checked."""
