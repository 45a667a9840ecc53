#ifndef EQSAT_PROGRAM_H
#define EQSAT_PROGRAM_H

#include <stdint.h>

/* Buffers are dense and row-major; none may overlap one that is written.
   v0: input a, float32[5, 7]
   v5: output y, float32[5, 7]
   workspace: 256 bytes, aligned to 64; answers 0, or 1 for a null pointer. */
int eqsat_program(const float *v0, float *v5, void *workspace);

#endif /* EQSAT_PROGRAM_H */
