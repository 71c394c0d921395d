// An inflater for texts that are packed at build time. libz may be missing on the system, and loading it would take
// longer than unpacking a text.
#include "unpack.h"

#include <string.h>

enum { LONGEST = 15, LITERALS = 288, DISTANCES = 32, END = 256 };

typedef struct {
  const unsigned char *next, *end;
  char *text;
  size_t used, size;
  unsigned long bits;  // bits that were read and not used yet; the next bit is the lowest
  int count;
  int is_bad;
} work;

// A prefix code. Its words are sorted by length.
typedef struct {
  unsigned short words[LONGEST + 1];  // the number of words, by length
  unsigned short symbols[LITERALS];
} code;

static unsigned take(work *w, int count) {
  while (w->count < count) {
    if (w->next == w->end) {
      w->is_bad = 1;
      return 0;
    }
    w->bits |= (unsigned long)*w->next++ << w->count;
    w->count += 8;
  }
  const unsigned taken = (unsigned)(w->bits & ((1ul << count) - 1));
  w->bits >>= count;
  w->count -= count;
  return taken;
}

static void make_code(code *c, const unsigned char *lengths, int count) {
  unsigned short place[LONGEST + 2] = {0};
  memset(c->words, 0, sizeof c->words);
  for (int i = 0; i < count; i++) c->words[lengths[i]]++;
  c->words[0] = 0;
  for (int i = 1; i <= LONGEST; i++) place[i + 1] = (unsigned short)(place[i] + c->words[i]);
  for (int i = 0; i < count; i++)
    if (lengths[i]) c->symbols[place[lengths[i]]++] = (unsigned short)i;
}

static int symbol(work *w, const code *c) {
  // `first` is the first code word of the present length; `below` is the number of symbols with shorter code words.
  int word = 0, first = 0, below = 0;
  for (int length = 1; length <= LONGEST && !w->is_bad; length++) {
    word = word << 1 | (int)take(w, 1);
    first <<= 1;
    if (word - first < c->words[length]) return c->symbols[below + word - first];
    first += c->words[length];
    below += c->words[length];
  }
  w->is_bad = 1;
  return END;
}

static void put(work *w, char byte) {
  if (w->used < w->size) w->text[w->used++] = byte;
  else w->is_bad = 1;
}

static void repeat(work *w, const code *distances, int kind) {
  // A kind of length or distance begins where the last one ends. Each kind has this many extra bits.
  static const unsigned char length_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                              2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  const int last = (int)sizeof length_bits - 1;
  if (kind > last) {
    w->is_bad = 1;
    return;
  }
  unsigned length = 3, distance = 1;
  for (int i = 0; i < kind && kind < last; i++) length += 1u << length_bits[i];
  length = kind == last ? 258 : length + take(w, length_bits[kind]);
  const int far = symbol(w, distances);
  for (int i = 0; i < far && far < 30; i++) distance += 1u << (i < 4 ? 0 : i / 2 - 1);
  distance += take(w, far < 4 || far > 29 ? 0 : far / 2 - 1);
  if (far > 29 || distance > w->used) w->is_bad = 1;
  while (length-- && !w->is_bad) put(w, w->text[w->used - distance]);
}

static void unpack_block(work *w, const code *literals, const code *distances) {
  for (int found; !w->is_bad && (found = symbol(w, literals)) != END;) {
    if (found < END) put(w, (char)found);
    else repeat(w, distances, found - END - 1);
  }
}

static void unpack_fixed(work *w) {
  unsigned char lengths[LITERALS], five[DISTANCES];
  for (int i = 0; i < LITERALS; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  memset(five, 5, sizeof five);
  code literals, distances;
  make_code(&literals, lengths, LITERALS);
  make_code(&distances, five, DISTANCES);
  unpack_block(w, &literals, &distances);
}

// Reads the lengths of the code words of both codes. They are stored one after the other, and are themselves encoded
// with a third code.
static void unpack_dynamic(work *w) {
  static const unsigned char order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const int literal_count = (int)take(w, 5) + 257, distance_count = (int)take(w, 5) + 1, given = (int)take(w, 4) + 4;
  unsigned char lengths[LITERALS + DISTANCES] = {0};
  for (int i = 0; i < given; i++) lengths[order[i]] = (unsigned char)take(w, 3);
  code literals, distances;
  make_code(&literals, lengths, sizeof order);
  const int count = literal_count + distance_count;
  for (int i = 0; i < count && !w->is_bad;) {
    const int found = symbol(w, &literals);
    if (found < 16) {
      lengths[i++] = (unsigned char)found;
      continue;
    }
    const int value = found == 16 && i > 0 ? lengths[i - 1] : 0;
    const int times = (int)(found == 16 ? 3 + take(w, 2) : found == 17 ? 3 + take(w, 3) : 11 + take(w, 7));
    if (i + times > count || (found == 16 && i == 0)) w->is_bad = 1;
    for (int n = 0; n < times && !w->is_bad; n++) lengths[i++] = (unsigned char)value;
  }
  if (w->is_bad || literal_count > LITERALS - 2) {
    w->is_bad = 1;
    return;
  }
  make_code(&distances, lengths + literal_count, distance_count);
  make_code(&literals, lengths, literal_count);
  unpack_block(w, &literals, &distances);
}

static void unpack_stored(work *w) {
  take(w, w->count & 7);
  const unsigned length = take(w, 16), inverse = take(w, 16);
  if (length != (inverse ^ 0xffff)) w->is_bad = 1;
  for (unsigned i = 0; i < length && !w->is_bad; i++) put(w, (char)take(w, 8));
}

int lua_modules_unpack(const unsigned char *packed, size_t length, char *text, size_t size) {
  work w = {.next = packed, .end = packed + length, .text = text, .size = size};
  for (unsigned is_last = 0; !is_last && !w.is_bad;) {
    is_last = take(&w, 1);
    const unsigned kind = take(&w, 2);
    if (kind == 0) unpack_stored(&w);
    else if (kind == 1) unpack_fixed(&w);
    else if (kind == 2) unpack_dynamic(&w);
    else w.is_bad = 1;
  }
  return !w.is_bad && w.used == size;
}
