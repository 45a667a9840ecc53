"""Functions of float32 in C without branches, so that a loop over them becomes vector code: exp, log, tanh, erf.

Each reduces its range, evaluates a polynomial and puts the exponent together; NaN, infinities, overflow and subnormal
results are as in C. The errors, in units of the last place of the exact result, are in BOUNDS. The polynomials are
weighted least-squares fits of what the comment at each says, lowest power first.
"""

from __future__ import annotations

from collections.abc import Sequence

BOUNDS = {"exp": 1.02, "log": 1.0, "tanh": 2.0, "erf": 1.5}
"""The largest error of each function in units of the last place."""

_POLYNOMIALS: dict[str, tuple[float, ...]] = {
    # (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2
    "exp": (0.49999994, 0.16666521, 0.04166839, 0.00836871, 0.0013814614),
    # (log(1 + x) - x + x^2 / 2) / x^3 for sqrt(1/2) <= 1 + x <= sqrt(2)
    "log": (
        0.3333331,
        -0.24999987,
        0.20002227,
        -0.16669251,
        0.14218658,
        -0.12384348,
        0.11872976,
        -0.11789808,
        0.06915368,
    ),
    # (tanh(x) / x - 1) / z as a function of z = x^2 <= 0.4
    "tanh": (-0.33333278, 0.13331328, -0.05372923, 0.020601999, -0.0056607807),
    # erf(x) / x - 1 as a function of z = x^2 <= 1
    "erf": (
        0.12837917,
        -0.37612638,
        0.11283783,
        -0.026865445,
        0.005221075,
        -0.0008484711,
        0.00011270545,
        -9.680137e-06,
    ),
    # exp(x^2) erfc(x) as a function of x - 2.5, for 1 <= x <= 4
    "erfcx": (
        0.21080634,
        -0.07434938,
        0.024929535,
        -0.008000192,
        0.0025207072,
        -0.0006491677,
        0.00022366946,
        -0.00013621055,
        -5.7780737e-05,
        -2.7994573e-05,
    ),
}


def _horner(name: str, x: str) -> str:
    """A polynomial by Horner's rule."""
    *rest, text = (f"{c!r}f" for c in _POLYNOMIALS[name])
    for c in reversed(rest):
        text = f"({text} * {x} + {c})"
    return text


def _pair(name: str, at: int, x: str) -> str:
    """Two neighbouring terms of a polynomial, by a fused operation where that is fast."""
    low, high = _POLYNOMIALS[name][at : at + 2]
    return f"PLUS_TIMES({low!r}f, {high!r}f, {x})"


# Adding 1.5 * 2^23 + 254 rounds to an integer, n + 254, which then stands in the low bits. log(2) is taken in two
# parts, the first of few bits. Above 89 the terms are positive, and n at most 130: the result is infinite. Far below 0
# what is computed means nothing, and is replaced; a NaN passes through. The least of bits is one of integers: compilers
# would follow another condition of floats into both of its paths, which is no good as vectors.
_EXP = f"""#include <string.h>
#if defined(FP_FAST_FMAF) || defined(__FMA__)
#define PLUS_TIMES(c, a, b) fmaf(a, b, c)
#else
#define PLUS_TIMES(c, a, b) ((a) * (b) + (c))
#endif
static inline float power_of_two(uint32_t n)
{{
    const uint32_t bits = n << 23;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}}

static inline float exp_float32(float x)
{{
    const float wide = PLUS_TIMES(12583166.0f, x, 1.44269504f);
    int32_t bits;
    memcpy(&bits, &wide, 4);
    bits = bits < 0x4b400180 ? bits : 0x4b400180; /* n is 130 at most */
    float shifted;
    memcpy(&shifted, &bits, 4);
    const float n = shifted - 12583166.0f;
    const float r = PLUS_TIMES(PLUS_TIMES(x, n, -0.693359375f), n, 2.12194440e-4f), z = r * r;
    const float far = PLUS_TIMES({_pair("exp", 2, "r")}, {_POLYNOMIALS["exp"][4]!r}f, z);
    const float p = PLUS_TIMES(r, PLUS_TIMES({_pair("exp", 0, "r")}, far, z), z);
    const uint32_t k = (uint32_t)bits, half = k >> 1; /* 2^n in two factors, which need not be in range */
    const float scale = power_of_two(half), y = PLUS_TIMES(scale, p, scale) * power_of_two(k - half);
    return x < -105.0f ? 0.0f : y;
}}"""

_LOG = f"""#include <string.h>
static inline float log_float32(float x)
{{
    const float small = x < 0x1p-126f ? 0x1p23f : 1.0f, a = x * small;
    uint32_t bits;
    memcpy(&bits, &a, 4);
    const uint32_t up = bits - 0x3f3504f3u; /* from sqrt(1/2) on */
    const int32_t whole = (int32_t)(up >> 23), wide = whole > 255 ? whole - 512 : whole;
    bits = (up & 0x7fffffu) + 0x3f3504f3u;
    float m;
    memcpy(&m, &bits, 4);
    const float n = (float)wide - (x < 0x1p-126f ? 23.0f : 0.0f), r = m - 1.0f, z = r * r;
    const float p = {_horner("log", "r")};
    const float y = p * r * z + n * -2.12194440e-4f - 0.5f * z + r + n * 0.693359375f;
    const float zero = x == 0.0f ? -INFINITY : y, low = x < 0.0f ? NAN : zero;
    return x < INFINITY ? low : x;
}}"""

_TANH = f"""static inline float tanh_float32(float x)
{{
    const float a = fabsf(x), z = x * x, p = {_horner("tanh", "z")};
    const float far = copysignf(1.0f - 2.0f / (exp_float32(a + a) + 1.0f), x);
    const float y = a < 0.625f ? p * z * x + x : far;
    const float whole = x == 0.0f ? x : y;
    return isnan(x) ? x : whole;
}}"""

_ERF = f"""static inline float erf_float32(float x)
{{
    const float a = fabsf(x), z = x * x, p = {_horner("erf", "z")};
    const float b = a < 4.0f ? a : 4.0f, u = b - 2.5f, q = {_horner("erfcx", "u")};
    const float far = copysignf(1.0f - exp_float32(-(b * b)) * q, x);
    const float y = a < 1.0f ? p * x + x : far;
    return isnan(x) ? x : y;
}}"""

MATH = {"exp_float32": _EXP, "log_float32": _LOG, "tanh_float32": _TANH, "erf_float32": _ERF}
"""Helper functions by name."""


def needed(name: str) -> Sequence[str]:
    """The helpers that a helper calls."""
    return ("exp_float32",) if name in ("tanh_float32", "erf_float32") else ()
