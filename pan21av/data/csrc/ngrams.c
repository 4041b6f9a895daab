/* Counting n-grams: what counting.py asks for, in two steps.
 *
 * pan_analyse looks at every distinct token once: which word, symbol, mark and length it is, and which letter n-grams
 * it holds. pan_count then walks over the tokens of a document. The rules are those of ngrams.py, which says why;
 * tests hold the two against each other.
 *
 * Nothing is checked here: counting.py makes the tables, and ids lie within them.
 */

#include <stddef.h>
#include <stdint.h>

enum { ALPHA = 1, DIGIT = 2, UPPER = 4 };
enum { GAP_BINS = 15, LENGTHS = 16, MAX_WORD = 20, ENDINGS = 13, LONGEST_GRAM = 4 };
enum { WORDS, SYMBOLS, PAIRS, TRIPLES, LETTERS, GAPS, WORD_LENGTHS, SHAPED, VIEWS };
enum { A_WORD, A_NAME, IN_CAPITALS, A_NUMBER, UPPER_I, LOWER_I, CONTRACTED, A_SIGN, FIRST_SIGN };
enum { SHAPE_BITS = 6, SHORTEST_SHAPE = 2, LONGEST_SHAPE = 6 };

static const char *const ENDING[ENDINGS] = {"ing", "tion", "ness", "ment", "ful", "est", "ed",
                                            "ly",  "er",   "al",   "s",    "y",   "e"};

/* Open addressing: keys[h] -> values[h], values[h] < 0 where there is nothing. */
typedef struct {
  const uint64_t *keys;
  const int32_t *values;
  uint64_t mask;
} Table;

static uint64_t mixed(uint64_t key) {
  key ^= key >> 32;
  key *= 0x9E3779B97F4A7C15ull;
  return key ^ (key >> 29);
}

static int32_t find(const Table *table, uint64_t key) {
  for (uint64_t h = mixed(key) & table->mask;; h = (h + 1) & table->mask) {
    if (table->values[h] < 0 || table->keys[h] == key) return table->values[h];
  }
}

/* n keys -> a table of mask + 1 > n slots, whose values are -1 before. */
void pan_fill(int32_t n, const uint64_t *entries, uint64_t mask, uint64_t *keys, int32_t *values) {
  for (int32_t i = 0; i < n; i++) {
    uint64_t h = mixed(entries[i]) & mask;
    while (values[h] >= 0) h = (h + 1) & mask;
    keys[h] = entries[i];
    values[h] = i;
  }
}

/* FNV-1a over code points: 64 bits, so that two words of a vocabulary do not share one. */
static uint64_t spelled(const uint32_t *text, int32_t n) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (int32_t i = 0; i < n; i++) hash = (hash ^ text[i]) * 0x100000001B3ull;
  return hash;
}

void pan_spell(int32_t n, const uint32_t *text, const int64_t *start, uint64_t *out) {
  for (int32_t i = 0; i < n; i++) out[i] = spelled(text + start[i], (int32_t)(start[i + 1] - start[i]));
}

static int kind(const uint8_t *kinds, uint32_t c) { return c < 0x10000 ? kinds[c] : 0; }

static int ends_with(const uint32_t *low, int32_t n, const char *ending) {
  int32_t size = 0;
  while (ending[size]) size++;
  if (n <= size + 1) return 0;
  for (int32_t i = 0; i < size; i++)
    if (low[n - size + i] != (uint32_t)ending[i]) return 0;
  return 1;
}

/* Of a token that begins with a letter. */
static int in_capitals(const uint32_t *text, int32_t n, const uint8_t *kinds) {
  int caps = n > 1 && (kind(kinds, text[0]) & UPPER);
  for (int32_t i = 1; caps && i < n; i++) {
    int here = kind(kinds, text[i]);
    caps = (here & UPPER) || !(here & ALPHA);
  }
  return caps;
}

/* Which class a token belongs to that is no anchor: the order is that of ngrams.CLASSES. */
static int32_t class_of(const uint32_t *text, int32_t n, const uint32_t *low, int32_t n_low, const uint8_t *kinds) {
  int first = kind(kinds, text[0]);
  if (first & DIGIT) return 0;
  if (!(first & ALPHA) && !(text[0] == '\'' && n > 1)) return 1;
  if (in_capitals(text, n, kinds)) return 2;
  int32_t ending = ENDINGS, size = n <= 4 ? 0 : n <= 7 ? 1 : 2;
  for (int32_t e = 0; e < ENDINGS && ending == ENDINGS; e++)
    if (ends_with(low, n_low, ENDING[e])) ending = e;
  return 3 + ((first & UPPER ? 0 : 1) * 3 + size) * (ENDINGS + 1) + ending;
}

typedef struct {
  Table words, anchors, letters, signs;
  const uint8_t *kinds; /* of the characters below 0x10000 */
  int32_t n_anchors;
} Pool;

typedef struct {
  int32_t *word, *symbol, *length; /* (types); word and length -1 where there is none */
  uint8_t *mark, *shape;           /* (types) */
  int64_t *first;                  /* (types + 1), into letters */
  int32_t *letters;
} Types;

/* Which of ngrams.SHAPES. */
static uint8_t shape_of(const uint32_t *text, int32_t n, const Pool *pool) {
  int first = kind(pool->kinds, text[0]);
  if (first & DIGIT) return A_NUMBER;
  if (first & ALPHA) {
    if (n == 1 && text[0] == 'I') return UPPER_I;
    if (n == 1 && text[0] == 'i') return LOWER_I;
    if (in_capitals(text, n, pool->kinds)) return IN_CAPITALS;
    return first & UPPER ? A_NAME : A_WORD;
  }
  int32_t sign = find(&pool->signs, spelled(text, n));
  if (sign >= 0) return (uint8_t)(FIRST_SIGN + sign);
  return text[0] == '\'' && n > 1 ? CONTRACTED : A_SIGN;
}

static uint8_t mark_of(const uint32_t *text, int32_t n) {
  if (text[0] == '!' || text[0] == '?') return 1;
  if (text[0] == '.' && (n == 1 || (n == 3 && text[1] == '.' && text[2] == '.'))) return 1;
  if (n == 1 && text[0] == ',') return 2;
  if (n == 1 && text[0] == '"') return 3;
  return 0;
}

/* n tokens: text[start[i] .. start[i + 1]] as it is, low[...] in lower case; none is empty. */
void pan_analyse(int32_t n, const uint32_t *text, const int64_t *start, const uint32_t *lower, const int64_t *low_start,
                 const Pool *pool, const Types *types) {
  int64_t filled = 0;
  for (int32_t i = 0; i < n; i++) {
    const uint32_t *token = text + start[i], *low = lower + low_start[i];
    int32_t size = (int32_t)(start[i + 1] - start[i]), n_low = (int32_t)(low_start[i + 1] - low_start[i]);
    uint64_t hash = spelled(low, n_low);
    int32_t anchor = find(&pool->anchors, hash);
    types->word[i] = find(&pool->words, hash);
    types->symbol[i] = anchor >= 0 ? anchor : pool->n_anchors + class_of(token, size, low, n_low, pool->kinds);
    types->mark[i] = mark_of(token, size);
    types->shape[i] = shape_of(token, size, pool);
    types->length[i] = -1;
    types->first[i] = filled;
    if (!(kind(pool->kinds, token[0]) & ALPHA)) continue;
    types->length[i] = (size < LENGTHS ? size : LENGTHS) - 1;
    /* "_" + word + "_", 16 bits a character: an n-gram is a number. */
    uint64_t bounded[MAX_WORD + 2];
    int32_t last = n_low < MAX_WORD ? n_low : MAX_WORD;
    for (int32_t j = 0; j < last; j++) bounded[j + 1] = low[j] < 0xFFFF ? low[j] : 0xFFFF;
    bounded[0] = bounded[last + 1] = '_';
    for (int32_t from = 0; from <= last; from++) {
      uint64_t key = bounded[from];
      for (int32_t to = from + 1; to < from + LONGEST_GRAM && to <= last + 1; to++) {
        key = key << 16 | bounded[to];
        int32_t letter = find(&pool->letters, key);
        if (letter >= 0) types->letters[filled++] = letter;
      }
    }
  }
  types->first[n] = filled;
}

typedef struct {
  const int32_t *pair; /* (symbols, symbols): -1 where it is not of the pool */
  Table triples, shapes;
  const int32_t *offset; /* (VIEWS + 1) */
  const uint8_t *bins;   /* (max_gap + 1) */
  int32_t symbols, max_gap;
} Grams;

/* The relative frequencies, in each view, of one document of n token ids; `out` and `seen` (types) are zero before,
 * `seen` is so again afterwards; `touched` has room for n. */
void pan_count(int32_t n, const int32_t *ids, const Types *types, const Grams *grams, int32_t *seen, int32_t *touched,
               float *out) {
  const int32_t *offset = grams->offset;
  int32_t distinct = 0, before = -1, last = -1, mark_at[4] = {-1, -1, -1, -1};
  uint64_t shapes = 0; /* of the last tokens, the newest lowest */
  int shaped = offset[SHAPED + 1] > offset[SHAPED];
  double totals[VIEWS] = {n, n, n > 1 ? n - 1 : 0, n > 2 ? n - 2 : 0, 0, 0, 0, n};
  for (int32_t at = 0; at < n; at++) {
    int32_t id = ids[at], symbol = types->symbol[id];
    if (!seen[id]++) touched[distinct++] = id;
    if (last >= 0) {
      int32_t pair = grams->pair[(size_t)last * grams->symbols + symbol];
      if (pair >= 0) {
        out[offset[PAIRS] + pair]++;
      }
      if (before >= 0) {
        uint64_t key = ((uint64_t)before * grams->symbols + last) * grams->symbols + symbol;
        int32_t triple = find(&grams->triples, key);
        if (triple >= 0) out[offset[TRIPLES] + triple]++;
      }
    }
    before = last;
    last = symbol;
    if (shaped) {
      shapes = shapes << SHAPE_BITS | types->shape[id];
      for (int size = SHORTEST_SHAPE; size <= LONGEST_SHAPE && size <= at + 1; size++) {
        uint64_t key = (uint64_t)size << SHAPE_BITS * LONGEST_SHAPE | (shapes & ((1ull << SHAPE_BITS * size) - 1));
        int32_t found = find(&grams->shapes, key);
        if (found >= 0) out[offset[SHAPED] + found]++;
      }
    }
    int mark = types->mark[id];
    if (mark) {
      int32_t gap = at - mark_at[mark];
      out[offset[GAPS] + (mark - 1) * GAP_BINS + grams->bins[gap < grams->max_gap ? gap : grams->max_gap]]++;
      totals[GAPS]++;
      mark_at[mark] = at;
    }
  }
  for (int32_t i = 0; i < distinct; i++) {
    int32_t id = touched[i];
    float count = (float)seen[id];
    seen[id] = 0;
    if (types->word[id] >= 0) out[offset[WORDS] + types->word[id]] += count;
    out[offset[SYMBOLS] + types->symbol[id]] += count;
    if (types->length[id] >= 0) {
      out[offset[WORD_LENGTHS] + types->length[id]] += count;
      totals[WORD_LENGTHS] += count;
    }
    for (int64_t k = types->first[id]; k < types->first[id + 1]; k++) out[offset[LETTERS] + types->letters[k]] += count;
    totals[LETTERS] += count * (double)(types->first[id + 1] - types->first[id]);
  }
  for (int32_t view = 0; view < VIEWS; view++) {
    if (totals[view] > 0)
      for (int32_t k = offset[view]; k < offset[view + 1]; k++) out[k] = (float)(out[k] / totals[view]);
  }
}

/* What a character is to the layout of a text: see layout.py. */
enum { NOTHING, SPACE, LINE_END, TAB, DIGITS, LOWER, CAPITAL, SIGN };
enum { L_WORD, L_NAME, L_CAPITALS, L_NUMBER, L_BREAK, L_WIDE = L_BREAK + 3, L_SIGN };
enum { MOST_BREAKS = 3, LONGEST_LAYOUT = 5, LAYOUT_BITS = 8 };

static int character(const uint8_t *characters, uint8_t other, const uint32_t *text, int64_t n, int64_t at) {
  if (text[at] == '\r' && at + 1 < n && text[at + 1] == '\n') return NOTHING;
  return text[at] < 0x10000 ? characters[text[at]] : other;
}

/* n characters -> their symbols, at most n, and how many. `characters` (0x10000) says what each is, `other` what those
 * beyond are. */
int64_t pan_layout(int64_t n, const uint32_t *text, const uint8_t *characters, uint8_t other, uint8_t *out) {
  int64_t found = 0, at = 0;
  int blank = 1; /* before this place */
  while (at < n) {
    int here = character(characters, other, text, n, at);
    if (here == NOTHING) {
      at++;
    } else if (here <= TAB) {
      int64_t ends = 0, wide = 0;
      int next = here;
      for (; at < n; at++) {
        next = character(characters, other, text, n, at);
        if (next > TAB) break;
        ends += next == LINE_END;
        wide += next == TAB ? 2 : next == SPACE;
      }
      blank = 1;
      if (!found || at == n) continue;
      if (ends)
        out[found++] = (uint8_t)(L_BREAK + (ends < MOST_BREAKS ? ends : MOST_BREAKS) - 1);
      else if (wide > 1)
        out[found++] = L_WIDE;
    } else if (here < SIGN) {
      int digits = here == DIGITS, first = here, letters = 0, capitals = 0;
      for (; at < n; at++) {
        int next = character(characters, other, text, n, at);
        if (next == NOTHING) continue;
        if (next < DIGITS || next >= SIGN || (next == DIGITS) != digits) break;
        letters++;
        capitals += next == CAPITAL;
      }
      out[found++] = digits                                  ? L_NUMBER
                     : letters > 1 && capitals == letters ? L_CAPITALS
                     : first == CAPITAL                      ? L_NAME
                                                             : L_WORD;
      blank = 0;
    } else {
      int next = NOTHING;
      for (at++; at < n; at++) {
        next = character(characters, other, text, n, at);
        if (next != NOTHING) break;
      }
      int after = at == n || next <= TAB;
      out[found++] = (uint8_t)(L_SIGN + 4 * (here - SIGN) + 2 * blank + after);
      blank = 0;
    }
  }
  return found;
}

/* The relative frequencies (size of the pool) of a text's layout n-grams; `out` is zero before. */
void pan_count_layout(int64_t n, const uint8_t *symbols, const Table *pool, int32_t size, float *out) {
  uint64_t last = 0;
  for (int64_t at = 0; at < n; at++) {
    last = last << LAYOUT_BITS | symbols[at];
    for (int length = 1; length <= LONGEST_LAYOUT && length <= at + 1; length++) {
      uint64_t key = (uint64_t)length << LAYOUT_BITS * LONGEST_LAYOUT | (last & ((1ull << LAYOUT_BITS * length) - 1));
      int32_t found = find(pool, key);
      if (found >= 0) out[found]++;
    }
  }
  if (n > 0)
    for (int32_t i = 0; i < size; i++) out[i] /= (float)n;
}
