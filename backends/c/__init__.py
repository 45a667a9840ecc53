"""C: code of kernels, the compiler, stored programs."""
