#ifndef EQSAT_PROGRAM_H
#define EQSAT_PROGRAM_H

#include <stdint.h>

/* program: arrays are dense, row-major and aligned to their element type.
     in_a: float32[5, 7]
     out_y: float32[5, 7]
     workspace: 256 bytes, aligned to 64; each call at the same time needs its own.
   An output and the workspace may overlap no other argument.
   Answers 0, or before anything is written: 1 a null pointer; 2 an address that is not aligned; 3 overlapping memory. */
#define EQSAT_PROGRAM_WORKSPACE_BYTES 256
#define EQSAT_PROGRAM_IN_A_BYTES 140
#define EQSAT_PROGRAM_OUT_Y_BYTES 140

#ifdef __cplusplus
extern "C" {
#endif
int eqsat_program(const float *in_a, float *out_y, void *workspace);
#ifdef __cplusplus
}
#endif

#endif /* EQSAT_PROGRAM_H */
