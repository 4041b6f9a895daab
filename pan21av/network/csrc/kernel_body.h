/* Included by kernel.c once per instruction set, with ISA and VL (floats per vector) defined. */

#define VEC NAME(vec)
#define INLINE static inline __attribute__((always_inline))
typedef float VEC __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int32_t NAME(ivec) __attribute__((vector_size(VL * 4), aligned(4), may_alias));
#define IVEC NAME(ivec)
#define AT(p) (*(VEC *)(p))
#define CAT(p) (*(const VEC *)(p))

/* Register tiles are TILE_ROWS rows by 2 vectors: 12 accumulators of 16 registers for SSE and
 * AVX2, 24 of 32 for AVX-512 and NEON. */
#if VL == 16 || defined(__aarch64__)
#define TILE_ROWS 12
#define OUTER_ROWS 10
#else
#define TILE_ROWS 6
#define OUTER_ROWS 5
#endif
#define OUTER_DEPTH 180
#define BLOCK 12 /* sequences worked on together: what the backward pass keeps of them is little for the caches */

INLINE VEC NAME(splat)(float x) { return x - (VEC){0}; }

#if VL < 16
INLINE VEC NAME(clamp)(VEC x, float bound) {
#if VL == 8
    return (VEC)_mm256_max_ps(_mm256_min_ps((__m256)x, _mm256_set1_ps(bound)), _mm256_set1_ps(-bound));
#elif defined(HAVE_X86)
    return (VEC)_mm_max_ps(_mm_min_ps((__m128)x, _mm_set1_ps(bound)), _mm_set1_ps(-bound));
#else
    VEC hi = NAME(splat)(bound), lo = -hi;
    IVEC over = x > hi, under = x < lo;
    return (VEC)((~(over | under) & (IVEC)x) | (over & (IVEC)hi) | (under & (IVEC)lo));
#endif
}
#endif

/* 2^x for |x| <= 30 (clamped: beyond that sigmoid and tanh are flat to 1e-9): a polynomial on
 * [-1/2, 1/2], relative error 1e-7, and the integer part put into the exponent. */
INLINE VEC NAME(exp2)(VEC x) {
#if VL == 16
    /* Instructions of its own round, and scale by a power of two; what is small needs no bound. */
    x = (VEC)_mm512_min_ps((__m512)x, _mm512_set1_ps(30.0f));
    VEC whole = (VEC)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    VEC f = x - whole;
#else
    x = NAME(clamp)(x, 30.0f);
    VEC shifted = x + 12582912.0f; /* 1.5 * 2^23: the low bits now hold round(x) */
    VEC f = x - (shifted - 12582912.0f);
#endif
    VEC p = f * 0.00134004f + 0.00967604f;
    p = p * f + 0.05550327f;
    p = p * f + 0.24022107f;
    p = p * f + 0.69314721f;
    p = p * f + 1.00000008f;
#if VL == 16
    return (VEC)_mm512_scalef_ps((__m512)p, (__m512)whole);
#else
    return (VEC)((IVEC)p + ((IVEC)shifted << 23));
#endif
}
#define LOG2E 1.44269504f
INLINE VEC NAME(tanh)(VEC x) {
    VEC e = NAME(exp2)(x * (-2 * LOG2E));
    return (1.0f - e) / (1.0f + e);
}
INLINE VEC NAME(sigmoid)(VEC x) { return 1.0f / (1.0f + NAME(exp2)(x * -LOG2E)); }

static int NAME(activations)(int32_t count, const float *x, float *tanh_x, float *sigmoid_x) {
    for (int32_t i = 0; i + VL <= count; i += VL) {
        AT(tanh_x + i) = NAME(tanh)(CAT(x + i));
        AT(sigmoid_x + i) = NAME(sigmoid)(CAT(x + i));
    }
    return 0;
}

INLINE float NAME(sum)(VEC x) {
    float part[VL];
    AT(part) = x;
    for (int half = VL / 2; half; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
}

/* ---- small matrix products, n a multiple of VL ------------------------------------------- */

/* One tile of c (+)= a b: `rows` rows of c, `vecs` vectors wide. */
INLINE void NAME(tile_nn)(const int rows, const int vecs, int k, const float *a, ptrdiff_t lda,
                          const float *b, ptrdiff_t ldb, float *c, ptrdiff_t ldc) {
    VEC acc[TILE_ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) acc[r][v] = (VEC){0};
    for (int i = 0; i < k; i++)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vecs; v++) acc[r][v] += a[r * lda + i] * CAT(b + i * ldb + v * VL);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) AT(c + r * ldc + v * VL) = acc[r][v];
}

/* c (m, n) = a (m, k) b (k, n) */
static void NAME(product)(int m, int n, int k, const float *a, ptrdiff_t lda, const float *b,
                          ptrdiff_t ldb, float *c, ptrdiff_t ldc) {
    for (int j = 0; j < n; j += 2 * VL) {
        int r = 0;
        if (j + VL < n) {
            for (; r + TILE_ROWS <= m; r += TILE_ROWS)
                NAME(tile_nn)(TILE_ROWS, 2, k, a + r * lda, lda, b + j, ldb, c + r * ldc + j, ldc);
            for (; r < m; r++) NAME(tile_nn)(1, 2, k, a + r * lda, lda, b + j, ldb, c + r * ldc + j, ldc);
        } else {
            for (; r + TILE_ROWS <= m; r += TILE_ROWS)
                NAME(tile_nn)(TILE_ROWS, 1, k, a + r * lda, lda, b + j, ldb, c + r * ldc + j, ldc);
            for (; r < m; r++) NAME(tile_nn)(1, 1, k, a + r * lda, lda, b + j, ldb, c + r * ldc + j, ldc);
        }
    }
}

INLINE void NAME(tile_tn)(const int rows, const int vecs, int k, const float *a, ptrdiff_t lda,
                          const float *b, ptrdiff_t ldb, float *c, ptrdiff_t ldc) {
    VEC acc[OUTER_ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) acc[r][v] = (VEC){0};
    for (int i = 0; i < k; i++)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vecs; v++) acc[r][v] += a[i * lda + r] * CAT(b + i * ldb + v * VL);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) AT(c + r * ldc + v * VL) += acc[r][v];
}

/* c (m, n) += a' b, with a (k, m) and b (k, n): the gradients of weights. So much of both at a time as a cache holds
 * until all tiles have read it. */
static void NAME(add_outer)(int m, int n, int k, const float *a, ptrdiff_t lda, const float *b,
                            ptrdiff_t ldb, float *c, ptrdiff_t ldc) {
    for (int some; k > 0; k -= some, a += some * lda, b += some * ldb) {
        some = k < OUTER_DEPTH ? k : OUTER_DEPTH;
        for (int j = 0; j < n; j += 2 * VL) {
            int r = 0;
            if (j + VL < n) {
                for (; r + OUTER_ROWS <= m; r += OUTER_ROWS)
                    NAME(tile_tn)(OUTER_ROWS, 2, some, a + r, lda, b + j, ldb, c + r * ldc + j, ldc);
                for (; r < m; r++) NAME(tile_tn)(1, 2, some, a + r, lda, b + j, ldb, c + r * ldc + j, ldc);
            } else {
                for (; r + OUTER_ROWS <= m; r += OUTER_ROWS)
                    NAME(tile_tn)(OUTER_ROWS, 1, some, a + r, lda, b + j, ldb, c + r * ldc + j, ldc);
                for (; r < m; r++) NAME(tile_tn)(1, 1, some, a + r, lda, b + j, ldb, c + r * ldc + j, ldc);
            }
        }
    }
}

/* ---- one block of sequences ------------------------------------------------------------------ */

/* Scratch of one block; position p = row * steps + t. */
typedef struct {
    int rows, steps;            /* sequences here (<= BLOCK), the longest of them */
    const int64_t *start;
    const int32_t *length;
    float *states;              /* (p, 2, stride): h of both directions */
    float *cells;               /* (BLOCK, stride) */
    float *sink;                /* (4, stride): where rows past their end may read and write */
    float *dots;                /* (p, VL): sums to the energies of the attention */
    float *energies;            /* (p): attention, first energies, then weights */
    float *panels;              /* (2, H, G): recurrent weights in the order in which the steps read them */
    float *scales;              /* (4 rest): of the gates of units that fill no vector, before 2^x */
    float *gates, *tanh_cell, *cell_before; /* backward only: (2, p, ...) */
} NAME(Block);
#define Block NAME(Block)

/* Whole vectors of units have their gates side by side; the units left over, `rest` of them, share vectors. */
#define MAIN(s) ((s)->hidden / VL * VL)
#define REST(s) ((s)->hidden % VL)

static void NAME(pack)(const Shape *s, const float *recurrent, float *panels, float *scales) {
    const int main = MAIN(s), rest = REST(s);
    for (int d = 0; d < 2; d++, recurrent += (size_t)s->hidden * s->gates) {
        for (int j = 0; j < main; j += VL)
            for (int pair = 0; pair < 4; pair += 2)
                for (int k = 0; k < s->hidden; k++)
                    for (int g = pair; g < pair + 2; g++, panels += VL)
                        memcpy(panels, recurrent + (size_t)k * s->gates + g * main + j, VL * 4);
        for (int j = 4 * main; j < s->gates; j += VL)
            for (int k = 0; k < s->hidden; k++, panels += VL)
                memcpy(panels, recurrent + (size_t)k * s->gates + j, VL * 4);
    }
    for (int j = 0; j < s->gates - 4 * main; j++) scales[j] = j < 3 * rest ? -LOG2E : j < 4 * rest ? -2 * LOG2E : 0;
}

/* What becomes of a sequence's units in one step; from `keep` on only if the backward pass wants it. */
typedef struct { VEC cell, state, in, forget, out, candidate, tanh_cell; } NAME(Step);

/* Given e^-x of the three sigmoids and E = e^-2x of the candidate, tanh g = (1-E)/(1+E); one division serves all. */
INLINE NAME(Step) NAME(cell_step)(const int keep, VEC in, VEC forget, VEC out, VEC e, VEC old) {
    NAME(Step) y;
    in += 1.0f, forget += 1.0f, out += 1.0f;
    VEC both = in * (1.0f + e);
    VEC inverse = 1.0f / (both * forget);
    y.cell = (old * both + (1.0f - e) * forget) * inverse;
    VEC ec = NAME(exp2)(y.cell * (-2 * LOG2E));
    VEC inverse_out = 1.0f / (out * (1.0f + ec));
    y.state = (1.0f - ec) * inverse_out;
    if (keep) {
        y.in = (1.0f + e) * forget * inverse;
        y.forget = both * inverse;
        y.out = (1.0f + ec) * inverse_out;
        y.candidate = (1.0f - e) * in * forget * inverse;
        y.tanh_cell = (1.0f - ec) * out * inverse_out;
    }
    return y;
}

/* One time step for TILE_ROWS sequences and VL units. `keep` saves what the backward pass needs. */
INLINE void NAME(step)(const Shape *s, const int first, const int keep, const float *panel, int unit,
                       const float *const *input, const float *const *before, const float *const *old,
                       float *const *cell, float *const *state, float *const *gates, float *const *tanh_cell) {
    const ptrdiff_t main = MAIN(s);
    VEC acc[4][TILE_ROWS];
    for (int pair = 0; pair < 4; pair += 2) { /* two gates at a time, to stay within the registers */
        VEC low[TILE_ROWS], high[TILE_ROWS];
        for (int r = 0; r < TILE_ROWS; r++) {
            low[r] = CAT(input[r] + pair * main + unit);
            high[r] = CAT(input[r] + (pair + 1) * main + unit);
        }
        if (!first)
            for (int k = 0, hidden = s->hidden; k < hidden; k++, panel += 2 * VL)
                for (int r = 0; r < TILE_ROWS; r++) {
                    low[r] += before[r][k] * CAT(panel);
                    high[r] += before[r][k] * CAT(panel + VL);
                }
        for (int r = 0; r < TILE_ROWS; r++) acc[pair][r] = low[r], acc[pair + 1][r] = high[r];
    }
    for (int r = 0; r < TILE_ROWS; r++) {
        NAME(Step) y = NAME(cell_step)(keep, NAME(exp2)(acc[0][r] * -LOG2E), NAME(exp2)(acc[1][r] * -LOG2E),
                                       NAME(exp2)(acc[2][r] * -LOG2E), NAME(exp2)(acc[3][r] * (-2 * LOG2E)),
                                       first ? (VEC){0} : CAT(old[r] + unit));
        AT(cell[r] + unit) = y.cell;
        AT(state[r] + unit) = y.state;
        if (keep) {
            AT(gates[r] + unit) = y.in;
            AT(gates[r] + main + unit) = y.forget;
            AT(gates[r] + 2 * main + unit) = y.out;
            AT(gates[r] + 3 * main + unit) = y.candidate;
            AT(tanh_cell[r] + unit) = y.tanh_cell;
        }
    }
}

/* The first `rest` lanes of each gate side by side, and zeros up to whole vectors. */
INLINE void NAME(store_rest)(const Shape *s, VEC in, VEC forget, VEC out, VEC candidate, float *to) {
    const int rest = REST(s);
    float packed[5 * VL];
    AT(packed) = in; /* each covers what the one before it has too much */
    AT(packed + rest) = forget;
    AT(packed + 2 * rest) = out;
    AT(packed + 3 * rest) = candidate;
    AT(packed + 4 * rest) = (VEC){0};
    for (int j = 0; j < 4 * rest; j += VL) AT(to + j) = AT(packed + j);
}

/* The same for the units that fill no vector: product and 2^x on their gates packed, the rest on lanes of which only
 * the first `rest` mean something. What the others hold stays finite and is never read. */
INLINE void NAME(step_rest)(const Shape *s, const int first, const int keep, const float *panel, const float *scales,
                            const float *const *input, const float *const *before, const float *const *old,
                            float *const *cell, float *const *state, float *const *gates, float *const *tanh_cell) {
    const ptrdiff_t main = MAIN(s), rest = REST(s);
    float packed[TILE_ROWS][5 * VL]; /* e^-x of the gates, and room to read past them */
    for (int j = 0; j < s->gates - 4 * main; j += VL, panel += first ? 0 : s->hidden * VL) {
        VEC acc[TILE_ROWS];
        for (int r = 0; r < TILE_ROWS; r++) acc[r] = CAT(input[r] + 4 * main + j);
        if (!first)
            for (int k = 0, hidden = s->hidden; k < hidden; k++)
                for (int r = 0; r < TILE_ROWS; r++) acc[r] += before[r][k] * CAT(panel + k * VL);
        for (int r = 0; r < TILE_ROWS; r++) {
            AT(packed[r] + j) = NAME(exp2)(acc[r] * CAT(scales + j));
            AT(packed[r] + j + VL) = NAME(splat)(1.0f);
        }
    }
    for (int r = 0; r < TILE_ROWS; r++) {
        const float *e = packed[r];
        NAME(Step) y = NAME(cell_step)(keep, CAT(e), CAT(e + rest), CAT(e + 2 * rest), CAT(e + 3 * rest),
                                       first ? (VEC){0} : CAT(old[r] + main));
        AT(cell[r] + main) = y.cell;
        AT(state[r] + main) = y.state;
        if (keep) {
            AT(tanh_cell[r] + main) = y.tanh_cell;
            NAME(store_rest)(s, y.in, y.forget, y.out, y.candidate, gates[r] + 4 * main);
        }
    }
}

/* Into the second-level cache, for the next step: rows lie all over a table that no cache holds. */
INLINE void NAME(prefetch)(const float *row, int floats) {
    for (int i = 0; i < floats; i += 16) __builtin_prefetch(row + i, 0, 2);
}

/* Both directions over all sequences of a block. */
INLINE void NAME(recur)(const Shape *s, const Inputs *in, Block *b, const int keep) {
    const ptrdiff_t stride = s->stride, pos = 2 * stride, main = MAIN(s);
    for (int d = 0; d < 2; d++)
        for (int step = 0; step < b->steps; step++) {
            const float *input[BLOCK + TILE_ROWS], *before[BLOCK + TILE_ROWS], *old[BLOCK + TILE_ROWS];
            float *cell[BLOCK + TILE_ROWS], *state[BLOCK + TILE_ROWS];
            float *gates[BLOCK + TILE_ROWS], *tanh_cell[BLOCK + TILE_ROWS];
            int rows = 0; /* only those that are not past their end */
            for (int r = 0; r < b->rows; r++) {
                if (step >= b->length[r]) continue;
                int t = d ? b->length[r] - 1 - step : step;
                ptrdiff_t p = (ptrdiff_t)r * b->steps + t;
                const int32_t *id = in->ids + b->start[r] + t;
                const float *table = in->rows + d * s->gates;
                input[rows] = table + (size_t)*id * 2 * s->gates;
                if (step + 1 < b->length[r]) NAME(prefetch)(table + (size_t)id[d ? -1 : 1] * 2 * s->gates, s->gates);
                state[rows] = b->states + p * pos + d * stride;
                before[rows] = step ? state[rows] + (d ? pos : -pos) : b->sink;
                old[rows] = cell[rows] = b->cells + r * stride;
                if (keep) {
                    ptrdiff_t q = (ptrdiff_t)d * BLOCK * b->steps + p;
                    gates[rows] = b->gates + q * s->gates;
                    tanh_cell[rows] = b->tanh_cell + q * stride;
                    old[rows] = b->cell_before + q * stride;
                    if (step + 1 < b->length[r]) cell[rows] = b->cell_before + (d ? q - 1 : q + 1) * stride;
                    if (!step) memset(b->cell_before + q * stride, 0, stride * 4);
                }
                rows++;
            }
            for (; rows % TILE_ROWS; rows++) {
                input[rows] = before[rows] = old[rows] = b->sink;
                cell[rows] = state[rows] = gates[rows] = tanh_cell[rows] = b->sink;
            }
            const float *panel = b->panels + (ptrdiff_t)d * s->hidden * s->gates;
#define AT_ROW input + r, before + r, old + r, cell + r, state + r, gates + r, tanh_cell + r
            for (int unit = 0; unit < main; unit += VL, panel += s->hidden * 4 * VL)
                for (int r = 0; r < rows; r += TILE_ROWS)
                    if (step) NAME(step)(s, 0, keep, panel, unit, AT_ROW);
                    else NAME(step)(s, 1, keep, panel, unit, AT_ROW);
            for (int r = 0; REST(s) && r < rows; r += TILE_ROWS)
                if (step) NAME(step_rest)(s, 0, keep, panel, b->scales, AT_ROW);
                else NAME(step_rest)(s, 1, keep, panel, b->scales, AT_ROW);
#undef AT_ROW
        }
}

/* tanh(h W + b) for TILE_ROWS positions and `vecs` vectors, dotted with v: (p, VL), to be summed; kept in `hidden`. */
INLINE void NAME(tile_attention)(const Shape *s, const Inputs *in, const int vecs, const float *states, int j,
                                 float *dots, float *hidden) {
    const ptrdiff_t pos = 2 * (ptrdiff_t)s->stride;
    VEC acc[TILE_ROWS][2];
    for (int r = 0; r < TILE_ROWS; r++)
        for (int v = 0; v < vecs; v++) acc[r][v] = CAT(in->att_bias + j + v * VL);
    for (int d = 0; d < 2; d++) {
        const float *w = in->att_matrix + (ptrdiff_t)d * s->hidden * s->width + j;
        for (int k = 0; k < s->hidden; k++, w += s->width)
            for (int r = 0; r < TILE_ROWS; r++)
                for (int v = 0; v < vecs; v++)
                    acc[r][v] += states[r * pos + d * s->stride + k] * CAT(w + v * VL);
    }
    for (int r = 0; r < TILE_ROWS; r++) {
        VEC dot = j ? AT(dots + r * VL) : (VEC){0};
        for (int v = 0; v < vecs; v++) {
            VEC y = NAME(tanh)(acc[r][v]);
            dot += y * CAT(in->att_vector + j + v * VL);
            if (hidden) AT(hidden + r * s->width + j + v * VL) = y;
        }
        AT(dots + r * VL) = dot;
    }
}

/* Attention weights of every position into b->energies (0 past the end), pooled states out. Tiles go on from one
 * sequence to the next, over positions past an end too: what they make of those is never read. */
static void NAME(attend)(const Shape *s, const Inputs *in, Block *b, float *pooled, float *hidden) {
    const ptrdiff_t pos = 2 * (ptrdiff_t)s->stride, positions = (ptrdiff_t)b->rows * b->steps;
    for (int j = 0; j < s->width; j += 2 * VL)
        for (ptrdiff_t p = 0; p < positions; p += TILE_ROWS) {
            float *keep = hidden ? hidden + p * s->width : NULL;
            if (j + VL < s->width) NAME(tile_attention)(s, in, 2, b->states + p * pos, j, b->dots + p * VL, keep);
            else NAME(tile_attention)(s, in, 1, b->states + p * pos, j, b->dots + p * VL, keep);
        }
    for (int row = 0; row < b->rows; row++) {
        const int n = b->length[row];
        float *e = b->energies + (ptrdiff_t)row * b->steps;
        const float *dots = b->dots + (ptrdiff_t)row * b->steps * VL;
        const float *states = b->states + (ptrdiff_t)row * b->steps * pos;
        for (int t = 0; t < n; t++) e[t] = NAME(sum)(CAT(dots + t * VL));
        for (int t = n; t < b->steps; t++) e[t] = 0;
        float top = e[0], total = 0;
        for (int t = 1; t < n; t++) top = e[t] > top ? e[t] : top;
        for (int t = 0; t < n; t++) total += e[t] = expf(e[t] - top);
        for (int t = 0; t < n; t++) e[t] /= total;
        if (!pooled) continue;
        for (int d = 0; d < 2; d++) {
            float *out = pooled + (ptrdiff_t)row * 2 * s->hidden + d * s->hidden;
            for (int unit = 0; unit < s->stride; unit += VL) {
                VEC acc = (VEC){0};
                for (int t = 0; t < n; t++) acc += e[t] * CAT(states + t * pos + d * s->stride + unit);
                for (int i = 0; i < VL && unit + i < s->hidden; i++) out[unit + i] = acc[i];
            }
        }
    }
}

/* Scratch memory of one call, handed out in order; NULL base while only counting. */
typedef struct { float *base; size_t used; } NAME(Arena);
static float *NAME(take)(NAME(Arena) *arena, size_t floats) {
    size_t at = arena->used;
    arena->used += (floats + 15) / 16 * 16;
    return arena->base ? arena->base + at : NULL;
}

static void NAME(carve)(const Shape *s, NAME(Arena) *a, Block *b, int steps, int keep) {
    size_t p = (size_t)BLOCK * steps, stride = s->stride;
    b->states = NAME(take)(a, (p + TILE_ROWS) * 2 * stride); /* the last tile of the attention may go past the end */
    b->dots = NAME(take)(a, (p + TILE_ROWS) * VL);
    b->cells = NAME(take)(a, (BLOCK + 1) * stride);
    b->sink = NAME(take)(a, 4 * stride);
    b->energies = NAME(take)(a, p);
    b->panels = NAME(take)(a, 2 * (size_t)s->hidden * s->gates);
    b->scales = NAME(take)(a, 4 * VL);
    if (keep) {
        b->gates = NAME(take)(a, 2 * p * s->gates + VL); /* some lanes are read past their end */
        b->tanh_cell = NAME(take)(a, 2 * p * stride);
        b->cell_before = NAME(take)(a, 2 * p * stride);
    }
}

static void NAME(enter)(const Inputs *in, Block *b, const Shape *s, int first) {
    b->rows = s->sequences - first < BLOCK ? s->sequences - first : BLOCK;
    b->start = in->start + first;
    b->length = in->length + first;
    b->steps = 0;
    for (int r = 0; r < b->rows; r++) b->steps = b->length[r] > b->steps ? b->length[r] : b->steps;
}

static int NAME(longest)(const Shape *s, const Inputs *in) {
    int steps = 0;
    for (int n = 0; n < s->sequences; n++) steps = in->length[n] > steps ? in->length[n] : steps;
    return steps;
}

static int NAME(forward)(const Shape *s, const Inputs *in, float *pooled, float *weights) {
    Block b;
    NAME(Arena) arena = {NULL, 0};
    const int steps = NAME(longest)(s, in);
    NAME(carve)(s, &arena, &b, steps, 0);
    arena.base = aligned_alloc(64, arena.used * 4);
    if (!arena.base) return 1;
    arena.used = 0;
    NAME(carve)(s, &arena, &b, steps, 0);
    memset(b.sink, 0, 4 * (size_t)s->stride * 4);
    NAME(pack)(s, in->recurrent, b.panels, b.scales);
    for (int first = 0; first < s->sequences; first += BLOCK) {
        NAME(enter)(in, &b, s, first);
        NAME(recur)(s, in, &b, 0);
        NAME(attend)(s, in, &b, pooled + (ptrdiff_t)first * 2 * s->hidden, NULL);
        if (!weights) continue;
        for (int r = 0; r < b.rows; r++) {
            float *out = weights + (ptrdiff_t)(first + r) * s->longest;
            memset(out, 0, s->longest * 4);
            memcpy(out, b.energies + (ptrdiff_t)r * b.steps, b.length[r] * 4);
        }
    }
    free(arena.base);
    return 0;
}

/* Back through attention: gradients of states (p, width), both directions side by side, from those of the pooled rows,
 * (row, 2, stride) with zeros past H. */
static void NAME(attend_backward)(const Shape *s, const Inputs *in, Block *b, const float *grad_pooled,
                                  float *hidden, float *d_energy, const float *transposed,
                                  float *grad_states, const Gradients *out) {
    const ptrdiff_t pos = 2 * (ptrdiff_t)s->stride;
    const int positions = b->rows * b->steps;
    for (int row = 0; row < b->rows; row++) {
        const int n = b->length[row];
        const float *alpha = b->energies + (ptrdiff_t)row * b->steps;
        const float *grad = grad_pooled + row * pos;
        float mean = 0;
        for (int t = 0; t < n; t++) {
            const float *h = b->states + ((ptrdiff_t)row * b->steps + t) * pos;
            VEC lanes = (VEC){0};
            for (int i = 0; i < pos; i += VL) lanes += CAT(grad + i) * CAT(h + i);
            d_energy[t] = NAME(sum)(lanes);
            mean += alpha[t] * d_energy[t];
        }
        for (int t = 0; t < b->steps; t++) {
            float *y = hidden + ((ptrdiff_t)row * b->steps + t) * s->width;
            if (t >= n) { memset(y, 0, s->width * 4); continue; }
            float de = alpha[t] * (d_energy[t] - mean);
            for (int j = 0; j < s->width; j += VL) {
                VEC a = AT(y + j), da = de * CAT(in->att_vector + j) * (1.0f - a * a);
                AT(out->att_vector + j) += de * a;
                AT(out->att_bias + j) += da;
                AT(y + j) = da;
            }
        }
    }
    for (int d = 0; d < 2; d++)
        NAME(add_outer)(s->hidden, s->width, positions, b->states + d * s->stride, pos, hidden, s->width,
                        out->att_matrix + (ptrdiff_t)d * s->hidden * s->width, s->width);
    NAME(product)(positions, s->width, 2 * s->hidden, hidden, s->width, transposed, s->width, grad_states, s->width);
}

/* Gradients of TILE_ROWS states, `vecs` vectors of units, from those of the gates that they went into. */
INLINE void NAME(tile_back)(const Shape *s, const int vecs, const float *const *gates, const float *transposed,
                            float *const *state, int unit) {
    VEC acc[TILE_ROWS][2];
    for (int r = 0; r < TILE_ROWS; r++)
        for (int v = 0; v < vecs; v++) acc[r][v] = (VEC){0};
    transposed += unit;
    for (int k = 0, n = 4 * s->hidden; k < n; k++, transposed += s->stride)
        for (int r = 0; r < TILE_ROWS; r++)
            for (int v = 0; v < vecs; v++) acc[r][v] += gates[r][k] * CAT(transposed + v * VL);
    for (int r = 0; r < TILE_ROWS; r++)
        for (int v = 0; v < vecs; v++) AT(state[r] + unit + v * VL) = acc[r][v];
}

/* The same for all units. Where only a few of them fill no vector, each of these is a sum over the gates. */
INLINE void NAME(step_back)(const Shape *s, const float *const *gates, const float *recurrent, const float *transposed,
                            float *const *state) {
    const int tiled = REST(s) > VL / 4 ? s->stride : MAIN(s);
    int unit = 0;
    for (; unit + 2 * VL <= tiled; unit += 2 * VL) NAME(tile_back)(s, 2, gates, transposed, state, unit);
    if (unit < tiled) NAME(tile_back)(s, 1, gates, transposed, state, unit);
    for (unit = tiled; unit < s->hidden; unit++)
        for (int r = 0; r < TILE_ROWS; r++) {
            VEC sum = (VEC){0};
            for (int g = 0; g < s->gates; g += VL) sum += CAT(gates[r] + g) * CAT(recurrent + unit * s->gates + g);
            state[r][unit] = NAME(sum)(sum);
        }
}

/* Back through one direction; turns b->gates into their gradients in place. */
static void NAME(recur_backward)(const Shape *s, const Inputs *in, Block *b, int d, const float *transposed,
                                 const float *grad_pooled, const float *grad_states, float *grad_state,
                                 float *grad_cell, const Gradients *out) {
    const ptrdiff_t stride = s->stride, pos = 2 * stride, whole = (ptrdiff_t)BLOCK * b->steps;
    const ptrdiff_t width = s->gates, main = MAIN(s), rest = REST(s);
    const float *recurrent = in->recurrent + d * s->hidden * width;
    memset(grad_state, 0, BLOCK * stride * 4);
    memset(grad_cell, 0, BLOCK * stride * 4);
    for (int r = 0; r < b->rows; r++) /* past the end nothing flows */
        for (int t = b->length[r]; t < b->steps; t++)
            memset(b->gates + (d * whole + (ptrdiff_t)r * b->steps + t) * width, 0, width * 4);
    for (int step = b->steps - 1; step >= 0; step--) {
        const float *gates[BLOCK + TILE_ROWS];
        float *state[BLOCK + TILE_ROWS];
        int rows = 0;
        for (int r = 0; r < b->rows; r++) {
            if (step >= b->length[r]) continue;
            int t = d ? b->length[r] - 1 - step : step;
            ptrdiff_t p = (ptrdiff_t)r * b->steps + t, q = d * whole + p;
            const int32_t *id = in->ids + b->start[r] + t;
            const float *dy = grad_states + p * s->width + d * s->hidden, *pooled = grad_pooled + r * pos + d * stride;
            const float alpha = b->energies[p];
            float *g = b->gates + q * width, *row = out->rows + ((size_t)*id * 2 + d) * width;
            if (step) NAME(prefetch)(out->rows + ((size_t)id[d ? 1 : -1] * 2 + d) * width, width);
            gates[rows] = g, state[rows++] = grad_state + r * stride;
            for (int u = 0; u < s->hidden; u += VL) {
                const int whole_vector = u < main;
                const ptrdiff_t gap = whole_vector ? main : rest, at = whole_vector ? u : 4 * main;
                VEC i = AT(g + at), f = AT(g + gap + at), o = AT(g + 2 * gap + at), c = AT(g + 3 * gap + at);
                VEC th = AT(b->tanh_cell + q * stride + u);
                VEC dh = CAT(dy + u) + alpha * CAT(pooled + u) + AT(grad_state + r * stride + u);
                VEC dc = AT(grad_cell + r * stride + u) + dh * o * (1.0f - th * th);
                VEC di = dc * c * i * (1.0f - i), df = dc * AT(b->cell_before + q * stride + u) * f * (1.0f - f);
                VEC dout = dh * th * o * (1.0f - o), dg = dc * i * (1.0f - c * c);
                AT(grad_cell + r * stride + u) = dc * f;
                if (whole_vector) {
                    AT(g + at) = di, AT(row + at) += di;
                    AT(g + gap + at) = df, AT(row + gap + at) += df;
                    AT(g + 2 * gap + at) = dout, AT(row + 2 * gap + at) += dout;
                    AT(g + 3 * gap + at) = dg, AT(row + 3 * gap + at) += dg;
                } else {
                    NAME(store_rest)(s, di, df, dout, dg, g + at);
                    for (ptrdiff_t j = at; j < width; j += VL) AT(row + j) += AT(g + j);
                }
            }
            if (!step) memset(g, 0, width * 4); /* no state went in: below, its neighbour's must not count */
        }
        if (!step) break;
        for (; rows % TILE_ROWS; rows++) gates[rows] = state[rows] = b->sink;
        for (int r = 0; r < rows; r += TILE_ROWS) NAME(step_back)(s, gates + r, recurrent, transposed, state + r);
    }
    /* The state that goes into a position is that of the one before it, in the other direction of the one after it. */
    NAME(add_outer)(s->hidden, width, b->rows * b->steps - 1, b->states + d * (stride + pos), pos,
                    b->gates + (d ? whole : 1) * width, width, out->recurrent + d * s->hidden * width, width);
}

static int NAME(backward)(const Shape *s, const Inputs *in, const float *grad_pooled, const Gradients *out) {
    Block b;
    float *hidden = NULL, *grad_states = NULL, *grad_state = NULL, *grad_cell = NULL, *grad_rows = NULL;
    float *d_energy = NULL, *att_transposed = NULL, *rec_transposed = NULL;
    NAME(Arena) arena = {NULL, 0};
    const size_t stride = s->stride, gates = s->gates, positions = (size_t)BLOCK * NAME(longest)(s, in);
    for (int pass = 0; pass < 2; pass++) {
        NAME(carve)(s, &arena, &b, (int)(positions / BLOCK), 1);
        hidden = NAME(take)(&arena, (positions + TILE_ROWS) * s->width);
        d_energy = NAME(take)(&arena, positions / BLOCK);
        grad_states = NAME(take)(&arena, positions * s->width + VL); /* read in whole vectors */
        grad_state = NAME(take)(&arena, BLOCK * stride);
        grad_cell = NAME(take)(&arena, BLOCK * stride);
        grad_rows = NAME(take)(&arena, BLOCK * 2 * stride);
        att_transposed = NAME(take)(&arena, (size_t)s->width * s->width);
        rec_transposed = NAME(take)(&arena, 2 * gates * stride);
        if (pass) break;
        arena.base = aligned_alloc(64, arena.used * 4);
        if (!arena.base) return 1;
        /* Padded lanes must be zero, and positions past the end finite. */
        memset(arena.base, 0, arena.used * 4);
        arena.used = 0;
    }
    NAME(pack)(s, in->recurrent, b.panels, b.scales);
    for (int j = 0; j < s->width; j++)
        for (int k = 0; k < 2 * s->hidden; k++) att_transposed[j * s->width + k] = in->att_matrix[k * s->width + j];
    for (int d = 0; d < 2; d++)
        for (size_t g = 0; g < gates; g++)
            for (int k = 0; k < s->hidden; k++)
                rec_transposed[(d * gates + g) * stride + k] = in->recurrent[((size_t)d * s->hidden + k) * gates + g];
    for (int first = 0; first < s->sequences; first += BLOCK) {
        NAME(enter)(in, &b, s, first);
        for (int side = 0; side < 2 * b.rows; side++)
            memcpy(grad_rows + side * stride, grad_pooled + ((ptrdiff_t)2 * first + side) * s->hidden, s->hidden * 4);
        NAME(recur)(s, in, &b, 1);
        NAME(attend)(s, in, &b, NULL, hidden);
        NAME(attend_backward)(s, in, &b, grad_rows, hidden, d_energy, att_transposed, grad_states, out);
        for (int d = 0; d < 2; d++)
            NAME(recur_backward)(s, in, &b, d, rec_transposed + d * gates * stride, grad_rows, grad_states, grad_state,
                                 grad_cell, out);
    }
    free(arena.base);
    return 0;
}

static int NAME(chars_forward)(int32_t types, int32_t letters, int32_t taps, int32_t chars, int32_t stride,
                               const int32_t *ids, const float *table, const float *bias, float *out,
                               uint8_t *argmax) {
    const int positions = letters + taps - 1;
    for (int32_t n = 0; n < types; n++) {
        const int32_t *word = ids + (size_t)n * letters;
        int length = letters;
        while (length && !word[length - 1]) length--;
        /* Past length + taps - 1 every position is padding only, so one of them stands for all. */
        const int last = length + taps - 1 < positions - 1 ? length + taps - 1 : positions - 1;
        for (int32_t f = 0; f < stride; f += VL) {
            VEC top = {0};
            IVEC where = {0};
            for (int p = 0; p <= last; p++) {
                VEC sum = {0};
                for (int k = 0; k < taps; k++) {
                    int at = p + k - (taps - 1);
                    if (at >= 0 && at < length) sum += CAT(table + ((size_t)k * chars + word[at]) * stride + f);
                }
                IVEC more = sum > top;
                if (!p) more = ~(IVEC){0};
                top = (VEC)((more & (IVEC)sum) | (~more & (IVEC)top));
                where = (more & (p - (IVEC){0})) | (~more & where);
            }
            AT(out + (size_t)n * stride + f) = NAME(tanh)(top + CAT(bias + f));
            if (argmax)
                for (int i = 0; i < VL; i++) argmax[(size_t)n * stride + f + i] = (uint8_t)where[i];
        }
    }
    return 0;
}

#undef VEC
#undef IVEC
#undef INLINE
#undef AT
#undef CAT
#undef TILE_ROWS
#undef OUTER_ROWS
#undef OUTER_DEPTH
#undef BLOCK
#undef LOG2E
#undef MAIN
#undef REST
#undef Block
