"""Functions over buffers as kernels: made ready for C and OpenCL, printed, called on arrays that are checked."""
