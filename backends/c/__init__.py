"""C: code of kernels, the compiler, compiled programs in the cache."""
