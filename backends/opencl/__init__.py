"""OpenCL: code of kernels, devices, runs, tuning."""
