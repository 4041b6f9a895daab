/* The recurrent kernel of pan21av: plain C ABI on raw pointers, loaded with ctypes.
 *
 * A "sequence" is a slice of a flat id array: sequence n is ids[start[n] .. start[n]+length[n]),
 * and id i selects row i of `rows`, the LSTM's input already projected to gate space. The token
 * level gathers the rows of token types, the window level its own rows in order: one kernel
 * serves both. Hidden sizes are padded to `stride` (see pan_lanes) so that every vector
 * access is whole.
 *
 * kernel_body.h is the code; it is compiled here once per instruction set and chosen at run time.
 * Every row of a result is computed in the same order whatever its neighbours are, so answers do
 * not depend on how texts were batched.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86 1
#include <immintrin.h>
#endif

typedef struct {
    int32_t hidden;    /* H: units per direction */
    int32_t stride;    /* H rounded up to the vector length */
    int32_t gates;     /* G: the four gates of all units, in whole vectors */
    int32_t width;     /* 2H rounded up to the vector length: row length of the attention weights */
    int32_t sequences; /* N */
    int32_t longest;   /* row length of `weights` */
} Shape;

/* All matrices row-major. Gates in the order i, f, o, g: first those of the units that fill whole vectors, a gate after
 * the other, then those of the units left over, likewise, then zeros up to G. 50 units so take 208 lanes, not 256. */
typedef struct {
    const float *rows;      /* (row, 2, G): projected inputs, forward and backward */
    const int32_t *ids;     /* flat */
    const int64_t *start;   /* (N) */
    const int32_t *length;  /* (N) each >= 1 */
    const float *recurrent; /* (2, H, G) */
    const float *att_matrix; /* (2H, width): tanh(h W + b) . v */
    const float *att_bias;   /* (width) */
    const float *att_vector; /* (width) */
} Inputs;

typedef struct {
    float *rows;       /* the same shapes as the inputs; all are added to */
    float *recurrent;
    float *att_matrix;
    float *att_bias;
    float *att_vector;
} Gradients;

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)
#define NAME(x) JOIN(x, ISA)

#define ISA base
#define VL 4
#include "kernel_body.h"
#undef ISA
#undef VL

#ifdef HAVE_X86
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define ISA avx2
#define VL 8
#include "kernel_body.h"
#undef ISA
#undef VL
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma,prefer-vector-width=512")
#endif
#define ISA avx512
#define VL 16
#include "kernel_body.h"
#undef ISA
#undef VL
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

enum { BASE, AVX2, AVX512 };
static int chosen = -1;

static int best(void) {
#ifdef HAVE_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return AVX2;
#endif
    return BASE;
}

/* Choose an instruction set by name; 0 if this machine has it. Tests use it to run them all. */
int pan_use(const char *name) {
    int wanted = best();
    if (!strcmp(name, "base")) wanted = BASE;
    else if (!strcmp(name, "avx2")) wanted = AVX2;
    else if (!strcmp(name, "avx512")) wanted = AVX512;
    else if (strcmp(name, "best")) return -1;
    if (wanted > best()) return -1;
    chosen = wanted;
    return 0;
}

const char *pan_isa(void) {
    static const char *names[] = {"base", "avx2", "avx512"};
    if (chosen < 0) chosen = best();
    return names[chosen];
}

/* Hidden sizes and filter counts are padded to a multiple of this: floats per vector. */
int pan_lanes(void) {
    static const int lanes[] = {4, 8, 16};
    return pan_isa(), lanes[chosen];
}

#ifdef HAVE_X86
#define DISPATCH(call)                                                \
    do {                                                              \
        if (chosen < 0) chosen = best();                              \
        switch (chosen) {                                             \
        case AVX512: return JOIN(call, avx512) ARGS;                  \
        case AVX2: return JOIN(call, avx2) ARGS;                      \
        default: return JOIN(call, base) ARGS;                        \
        }                                                             \
    } while (0)
#else
#define DISPATCH(call) return JOIN(call, base) ARGS
#endif

/* pooled (N, 2H); weights (N, longest) or NULL. Returns 0, or 1 when memory ran out. */
int pan_forward(const Shape *shape, const Inputs *in, float *pooled, float *weights) {
#define ARGS (shape, in, pooled, weights)
    DISPATCH(forward);
#undef ARGS
}

/* Recomputes the forward pass block by block, so nothing has to be kept from it. */
int pan_backward(const Shape *shape, const Inputs *in, const float *grad_pooled, const Gradients *out) {
#define ARGS (shape, in, grad_pooled, out)
    DISPATCH(backward);
#undef ARGS
}

/* Character CNN over token types, as table look-ups: table (taps, chars, stride) holds what a
 * character adds to each filter at each tap; character 0 is padding and adds nothing.
 * out (types, stride) = tanh(max over positions + bias), argmax the position of the maximum. */
int pan_chars_forward(int32_t types, int32_t letters, int32_t taps, int32_t chars, int32_t stride,
                      const int32_t *ids, const float *table, const float *bias, float *out, uint8_t *argmax) {
#define ARGS (types, letters, taps, chars, stride, ids, table, bias, out, argmax)
    DISPATCH(chars_forward);
#undef ARGS
}

int pan_chars_backward(int32_t types, int32_t letters, int32_t taps, int32_t chars, int32_t stride,
                       const int32_t *ids, const float *out, const uint8_t *argmax, const float *grad_out,
                       float *grad_table, float *grad_bias) {
    for (int32_t n = 0; n < types; n++)
        for (int32_t f = 0; f < stride; f++) {
            float y = out[(size_t)n * stride + f], d = grad_out[(size_t)n * stride + f] * (1 - y * y);
            int32_t first = argmax[(size_t)n * stride + f] - (taps - 1);
            grad_bias[f] += d;
            for (int32_t k = 0; k < taps; k++) {
                int32_t at = first + k;
                if (at < 0 || at >= letters) continue;
                int32_t c = ids[(size_t)n * letters + at];
                if (c) grad_table[((size_t)k * chars + c) * stride + f] += d;
            }
        }
    return 0;
}

/* The kernel's own tanh and sigmoid on an array, so that a test can measure their error. */
int pan_activations(int32_t count, const float *x, float *tanh_x, float *sigmoid_x) {
#define ARGS (count, x, tanh_x, sigmoid_x)
    DISPATCH(activations);
#undef ARGS
}
