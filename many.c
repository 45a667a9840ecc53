#include <math.h>
#include <stdint.h>

/* add */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 0.0f;
    }
}

/* add */
static void kernel_1(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 1.0f;
    }
}

/* add */
static void kernel_2(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 2.0f;
    }
}

/* add */
static void kernel_3(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 3.0f;
    }
}

/* add */
static void kernel_4(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 4.0f;
    }
}

/* add */
static void kernel_5(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 5.0f;
    }
}

/* add */
static void kernel_6(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 6.0f;
    }
}

/* add */
static void kernel_7(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 7.0f;
    }
}

/* add */
static void kernel_8(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 8.0f;
    }
}

/* add */
static void kernel_9(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 9.0f;
    }
}

/* add */
static void kernel_10(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 10.0f;
    }
}

/* add */
static void kernel_11(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 11.0f;
    }
}

/* add */
static void kernel_12(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 12.0f;
    }
}

/* add */
static void kernel_13(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 13.0f;
    }
}

/* add */
static void kernel_14(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 14.0f;
    }
}

/* add */
static void kernel_15(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 15.0f;
    }
}

/* add */
static void kernel_16(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 16.0f;
    }
}

/* add */
static void kernel_17(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 17.0f;
    }
}

/* add */
static void kernel_18(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 18.0f;
    }
}

/* add */
static void kernel_19(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 19.0f;
    }
}

/* add */
static void kernel_20(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 20.0f;
    }
}

/* add */
static void kernel_21(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 21.0f;
    }
}

/* add */
static void kernel_22(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 22.0f;
    }
}

/* add */
static void kernel_23(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 23.0f;
    }
}

/* add */
static void kernel_24(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 24.0f;
    }
}

/* add */
static void kernel_25(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 25.0f;
    }
}

/* add */
static void kernel_26(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 26.0f;
    }
}

/* add */
static void kernel_27(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 27.0f;
    }
}

/* add */
static void kernel_28(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 28.0f;
    }
}

/* add */
static void kernel_29(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 29.0f;
    }
}

/* add */
static void kernel_30(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 30.0f;
    }
}

/* add */
static void kernel_31(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 31.0f;
    }
}

/* add */
static void kernel_32(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 32.0f;
    }
}

/* add */
static void kernel_33(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 33.0f;
    }
}

/* add */
static void kernel_34(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 34.0f;
    }
}

/* add */
static void kernel_35(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 35.0f;
    }
}

/* add */
static void kernel_36(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 36.0f;
    }
}

/* add */
static void kernel_37(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 37.0f;
    }
}

/* add */
static void kernel_38(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 38.0f;
    }
}

/* add */
static void kernel_39(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 39.0f;
    }
}

/* add */
static void kernel_40(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 40.0f;
    }
}

/* add */
static void kernel_41(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 41.0f;
    }
}

/* add */
static void kernel_42(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 42.0f;
    }
}

/* add */
static void kernel_43(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 43.0f;
    }
}

/* add */
static void kernel_44(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 44.0f;
    }
}

/* add */
static void kernel_45(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 45.0f;
    }
}

/* add */
static void kernel_46(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 46.0f;
    }
}

/* add */
static void kernel_47(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 47.0f;
    }
}

/* add */
static void kernel_48(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 48.0f;
    }
}

/* add */
static void kernel_49(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 49.0f;
    }
}

/* add */
static void kernel_50(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 50.0f;
    }
}

/* add */
static void kernel_51(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 51.0f;
    }
}

/* add */
static void kernel_52(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 52.0f;
    }
}

/* add */
static void kernel_53(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 53.0f;
    }
}

/* add */
static void kernel_54(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 54.0f;
    }
}

/* add */
static void kernel_55(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 55.0f;
    }
}

/* add */
static void kernel_56(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 56.0f;
    }
}

/* add */
static void kernel_57(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 57.0f;
    }
}

/* add */
static void kernel_58(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 58.0f;
    }
}

/* add */
static void kernel_59(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3072; ++i0) {
        out0[i0] = in0[i0] + 59.0f;
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const float *in_x, float *out_o0, float *out_o1, float *out_o2, float *out_o3, float *out_o4, float *out_o5, float *out_o6, float *out_o7, float *out_o8, float *out_o9, float *out_o10, float *out_o11, float *out_o12, float *out_o13, float *out_o14, float *out_o15, float *out_o16, float *out_o17, float *out_o18, float *out_o19, float *out_o20, float *out_o21, float *out_o22, float *out_o23, float *out_o24, float *out_o25, float *out_o26, float *out_o27, float *out_o28, float *out_o29, float *out_o30, float *out_o31, float *out_o32, float *out_o33, float *out_o34, float *out_o35, float *out_o36, float *out_o37, float *out_o38, float *out_o39, float *out_o40, float *out_o41, float *out_o42, float *out_o43, float *out_o44, float *out_o45, float *out_o46, float *out_o47, float *out_o48, float *out_o49, float *out_o50, float *out_o51, float *out_o52, float *out_o53, float *out_o54, float *out_o55, float *out_o56, float *out_o57, float *out_o58, float *out_o59, void *workspace)
{
    (void)workspace;
    if (!in_x || !out_o0 || !out_o1 || !out_o2 || !out_o3 || !out_o4 || !out_o5 || !out_o6 || !out_o7 || !out_o8 || !out_o9 || !out_o10 || !out_o11 || !out_o12 || !out_o13 || !out_o14 || !out_o15 || !out_o16 || !out_o17 || !out_o18 || !out_o19 || !out_o20 || !out_o21 || !out_o22 || !out_o23 || !out_o24 || !out_o25 || !out_o26 || !out_o27 || !out_o28 || !out_o29 || !out_o30 || !out_o31 || !out_o32 || !out_o33 || !out_o34 || !out_o35 || !out_o36 || !out_o37 || !out_o38 || !out_o39 || !out_o40 || !out_o41 || !out_o42 || !out_o43 || !out_o44 || !out_o45 || !out_o46 || !out_o47 || !out_o48 || !out_o49 || !out_o50 || !out_o51 || !out_o52 || !out_o53 || !out_o54 || !out_o55 || !out_o56 || !out_o57 || !out_o58 || !out_o59) return 1;
    if (((uintptr_t)in_x | (uintptr_t)out_o0 | (uintptr_t)out_o1 | (uintptr_t)out_o2 | (uintptr_t)out_o3 | (uintptr_t)out_o4 | (uintptr_t)out_o5 | (uintptr_t)out_o6 | (uintptr_t)out_o7 | (uintptr_t)out_o8 | (uintptr_t)out_o9 | (uintptr_t)out_o10 | (uintptr_t)out_o11 | (uintptr_t)out_o12 | (uintptr_t)out_o13 | (uintptr_t)out_o14 | (uintptr_t)out_o15 | (uintptr_t)out_o16 | (uintptr_t)out_o17 | (uintptr_t)out_o18 | (uintptr_t)out_o19 | (uintptr_t)out_o20 | (uintptr_t)out_o21 | (uintptr_t)out_o22 | (uintptr_t)out_o23 | (uintptr_t)out_o24 | (uintptr_t)out_o25 | (uintptr_t)out_o26 | (uintptr_t)out_o27 | (uintptr_t)out_o28 | (uintptr_t)out_o29 | (uintptr_t)out_o30 | (uintptr_t)out_o31 | (uintptr_t)out_o32 | (uintptr_t)out_o33 | (uintptr_t)out_o34 | (uintptr_t)out_o35 | (uintptr_t)out_o36 | (uintptr_t)out_o37 | (uintptr_t)out_o38 | (uintptr_t)out_o39 | (uintptr_t)out_o40 | (uintptr_t)out_o41 | (uintptr_t)out_o42 | (uintptr_t)out_o43 | (uintptr_t)out_o44 | (uintptr_t)out_o45 | (uintptr_t)out_o46 | (uintptr_t)out_o47 | (uintptr_t)out_o48 | (uintptr_t)out_o49 | (uintptr_t)out_o50 | (uintptr_t)out_o51 | (uintptr_t)out_o52 | (uintptr_t)out_o53 | (uintptr_t)out_o54 | (uintptr_t)out_o55 | (uintptr_t)out_o56 | (uintptr_t)out_o57 | (uintptr_t)out_o58 | (uintptr_t)out_o59) % 4) return 2;
    const void *const at[] = {out_o0, out_o1, out_o2, out_o3, out_o4, out_o5, out_o6, out_o7, out_o8, out_o9, out_o10, out_o11, out_o12, out_o13, out_o14, out_o15, out_o16, out_o17, out_o18, out_o19, out_o20, out_o21, out_o22, out_o23, out_o24, out_o25, out_o26, out_o27, out_o28, out_o29, out_o30, out_o31, out_o32, out_o33, out_o34, out_o35, out_o36, out_o37, out_o38, out_o39, out_o40, out_o41, out_o42, out_o43, out_o44, out_o45, out_o46, out_o47, out_o48, out_o49, out_o50, out_o51, out_o52, out_o53, out_o54, out_o55, out_o56, out_o57, out_o58, out_o59, in_x};
    static const uintptr_t bytes[] = {12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288, 12288};
    for (int k = 0; k < 60; ++k)
        for (int m = k + 1; m < 61; ++m)
            if (overlap(at[k], bytes[k], at[m], bytes[m])) return 3;
    kernel_0(in_x, out_o0);
    kernel_1(in_x, out_o1);
    kernel_2(in_x, out_o2);
    kernel_3(in_x, out_o3);
    kernel_4(in_x, out_o4);
    kernel_5(in_x, out_o5);
    kernel_6(in_x, out_o6);
    kernel_7(in_x, out_o7);
    kernel_8(in_x, out_o8);
    kernel_9(in_x, out_o9);
    kernel_10(in_x, out_o10);
    kernel_11(in_x, out_o11);
    kernel_12(in_x, out_o12);
    kernel_13(in_x, out_o13);
    kernel_14(in_x, out_o14);
    kernel_15(in_x, out_o15);
    kernel_16(in_x, out_o16);
    kernel_17(in_x, out_o17);
    kernel_18(in_x, out_o18);
    kernel_19(in_x, out_o19);
    kernel_20(in_x, out_o20);
    kernel_21(in_x, out_o21);
    kernel_22(in_x, out_o22);
    kernel_23(in_x, out_o23);
    kernel_24(in_x, out_o24);
    kernel_25(in_x, out_o25);
    kernel_26(in_x, out_o26);
    kernel_27(in_x, out_o27);
    kernel_28(in_x, out_o28);
    kernel_29(in_x, out_o29);
    kernel_30(in_x, out_o30);
    kernel_31(in_x, out_o31);
    kernel_32(in_x, out_o32);
    kernel_33(in_x, out_o33);
    kernel_34(in_x, out_o34);
    kernel_35(in_x, out_o35);
    kernel_36(in_x, out_o36);
    kernel_37(in_x, out_o37);
    kernel_38(in_x, out_o38);
    kernel_39(in_x, out_o39);
    kernel_40(in_x, out_o40);
    kernel_41(in_x, out_o41);
    kernel_42(in_x, out_o42);
    kernel_43(in_x, out_o43);
    kernel_44(in_x, out_o44);
    kernel_45(in_x, out_o45);
    kernel_46(in_x, out_o46);
    kernel_47(in_x, out_o47);
    kernel_48(in_x, out_o48);
    kernel_49(in_x, out_o49);
    kernel_50(in_x, out_o50);
    kernel_51(in_x, out_o51);
    kernel_52(in_x, out_o52);
    kernel_53(in_x, out_o53);
    kernel_54(in_x, out_o54);
    kernel_55(in_x, out_o55);
    kernel_56(in_x, out_o56);
    kernel_57(in_x, out_o57);
    kernel_58(in_x, out_o58);
    kernel_59(in_x, out_o59);
    return 0;
}
