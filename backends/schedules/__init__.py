"""Which loops: schedules, their choice and tuning.

The choice is made by rules over strides and sizes. Their thresholds follow from the caches (`machine`, `cache_sets`)
where that is said. Those that say "Measured" were the best of several on the kernel suite, `benchmarks/kernels.py`, on
two cores of a shared server with AVX-512, in November 2026: who changes one runs the old and the new in turns there.
"""
