"""Functions over arrays as kernels: traced with tensors, optimised, compiled, called on memory as it lies."""
