"""What the compiled kernels are built from: the compiler's settings, SIMD vectors, small matrices."""
