// Numbers as text: the shortest decimal that reads as the same float.
//
// The method is Raffaello Giulietti's ("The Schubfach way to render doubles", 2020): among the decimals in the interval
// that rounds to a float, take the shortest, and among these the nearest. The algorithm needs powers of ten to 126
// bits, which are made at first use.
#define _GNU_SOURCE
#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "CJSON.h"

typedef unsigned __int128 wide;

enum { LOWEST = -292, HIGHEST = 324, LIMBS = 24 };

// 10^k, scaled by a power of two to [2^127, 2^128), and rounded up.
static wide powers[HIGHEST - LOWEST + 1];
static locale_t plain_locale;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// The highest 128 bits of a number in 64-bit limbs, lowest first; plus one if a lower bit is set.
static wide highest(const uint64_t *limbs, int count) {
  while (limbs[count - 1] == 0) count--;
  int shift = __builtin_clzll(limbs[count - 1]);
  uint64_t part[3] = {limbs[count - 1], count > 1 ? limbs[count - 2] : 0, count > 2 ? limbs[count - 3] : 0};
  wide top = (wide)part[0] << 64 | part[1];
  int rest = 0;
  if (shift > 0) {
    top = top << shift | part[2] >> (64 - shift);
    rest = part[2] << shift != 0;
  } else {
    rest = part[2] != 0;
  }
  for (int i = 0; i < count - 3 && !rest; i++) rest = limbs[i] != 0;
  return top + (wide)rest;
}

// Positive powers are exact. Negative ones are a power of two divided by ten again and again: rounding down each time
// is the same as rounding down once. The result is never exact, so one is added.
static void make_powers(void) {
  uint64_t limbs[LIMBS] = {1};
  for (int k = 0; k <= HIGHEST; k++) {
    powers[k - LOWEST] = highest(limbs, LIMBS);
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
      wide product = (wide)limbs[i] * 10 + carry;
      limbs[i] = (uint64_t)product;
      carry = (uint64_t)(product >> 64);
    }
  }
  memset(limbs, 0, sizeof limbs);
  limbs[LIMBS - 1] = (uint64_t)1 << 63;
  for (int k = -1; k >= LOWEST; k--) {
    uint64_t rest = 0;
    for (int i = LIMBS - 1; i >= 0; i--) {
      wide dividend = (wide)rest << 64 | limbs[i];
      limbs[i] = (uint64_t)(dividend / 10);
      rest = (uint64_t)(dividend % 10);
    }
    // The lowest bit stands for the bits that were cut off.
    uint64_t lowest = limbs[0];
    limbs[0] |= 1;
    powers[k - LOWEST] = highest(limbs, LIMBS);
    limbs[0] = lowest;
  }
  plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

// The highest 64 bits of a product with a power. The lowest of the 64 bits is set if any bit below them is, so that
// comparisons stay exact.
static uint64_t round_to_odd(wide power, uint64_t factor) {
  wide low = (wide)(uint64_t)power * factor;
  wide high = (wide)(uint64_t)(power >> 64) * factor + (uint64_t)(low >> 64);
  return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

// Finds the shortest decimal of a finite number above 0: number = *digits × 10^(the result).
static int shortest(double number, uint64_t *digits) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
  int biased = (int)(bits >> 52 & 0x7FF);
  uint64_t c = biased ? fraction | (uint64_t)1 << 52 : fraction;
  int q = (biased ? biased : 1) - 1075;

  // At a power of two, the float below is half as far away as the float above.
  int is_closer = fraction == 0 && biased > 1;
  int is_odd = (int)(c & 1);
  int k = (q * 1262611 - (is_closer ? 524031 : 0)) >> 22;
  int h = q + ((-k * 1741647) >> 19) + 1;
  wide power = powers[-k - LOWEST];
  uint64_t lower = round_to_odd(power, (4 * c - 2 + (uint64_t)is_closer) << h) + (uint64_t)is_odd;
  uint64_t middle = round_to_odd(power, (4 * c) << h);
  uint64_t upper = round_to_odd(power, (4 * c + 2) << h) - (uint64_t)is_odd;

  uint64_t s = middle / 4;
  if (s >= 10) {
    uint64_t tens = s / 10;
    int is_below = lower <= 40 * tens, is_above = 40 * tens + 40 <= upper;
    if (is_below != is_above) return *digits = tens + (uint64_t)is_above, k + 1;
  }
  int is_below = lower <= 4 * s, is_above = 4 * s + 4 <= upper;
  if (is_below != is_above) return *digits = s + (uint64_t)is_above, k;
  uint64_t half = 4 * s + 2;
  *digits = s + (uint64_t)(middle > half || (middle == half && (s & 1)));
  return k;
}

static int write_unsigned(char *to, uint64_t number) {
  char digits[20];
  int count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while (number /= 10);
  for (int i = 0; i < count; i++) to[i] = digits[count - 1 - i];
  return count;
}

int json_write_integer(char *to, lua_Integer number) {
  if (number >= 0) return write_unsigned(to, (uint64_t)number);
  to[0] = '-';
  return 1 + write_unsigned(to + 1, -(uint64_t)number);
}

int json_write_double(char *to, double number) {
  char *p = to;
  if (__builtin_signbit(number)) {
    *p++ = '-';
    number = -number;
  }
  // Most floats are small and whole.
  if (number < 1e15 && number == (double)(int64_t)number) {
    p += write_unsigned(p, (uint64_t)number);
    *p++ = '.', *p++ = '0';
    return (int)(p - to);
  }
  pthread_once(&once, make_powers);
  uint64_t digits;
  int exponent = shortest(number, &digits);
  for (; digits % 10 == 0; exponent++) digits /= 10;
  char text[20];
  int count = write_unsigned(text, digits);
  int point = count + exponent;  // digits before the point
  if (point > 17 || point < -4) {
    *p++ = text[0];
    if (count > 1) {
      *p++ = '.';
      memcpy(p, text + 1, (size_t)count - 1), p += count - 1;
    }
    *p++ = 'e';
    if (point - 1 >= 0) *p++ = '+';
    return (int)(p - to) + json_write_integer(p, point - 1);
  }
  if (point <= 0) {
    *p++ = '0', *p++ = '.';
    memset(p, '0', (size_t)-point), p += -point;
    memcpy(p, text, (size_t)count);
    return (int)(p - to) + count;
  }
  int whole = point < count ? point : count;
  memcpy(p, text, (size_t)whole), p += whole;
  memset(p, '0', (size_t)(point - whole)), p += point - whole;
  *p++ = '.';
  if (count == whole) *p++ = '0';
  memcpy(p, text + whole, (size_t)(count - whole));
  return (int)(p - to) + count - whole;
}

// Returns digits × 10^exponent as a float. Returns 0 beyond the range of normal floats, and if the product with 128
// bits is too close to the middle of two floats to tell which is nearer.
static double nearest(uint64_t digits, int exponent) {
  if (exponent < LOWEST || exponent > HIGHEST) return 0;
  pthread_once(&once, make_powers);
  int zeros = __builtin_clzll(digits);
  wide power = powers[exponent - LOWEST];
  uint64_t factor = digits << zeros;
  wide product = (wide)(uint64_t)(power >> 64) * factor + (uint64_t)((wide)(uint64_t)power * factor >> 64);
  int excess = product >> 127 ? 75 : 74;  // bits beyond the 53 of a float
  uint64_t mantissa = (uint64_t)(product >> excess);
  wide rest = product & (((wide)1 << excess) - 1), half = (wide)1 << (excess - 1);
  wide distance = rest > half ? rest - half : half - rest;
  if (distance < 4) return 0;
  int scale = excess - 63 - zeros + ((exponent * 1741647) >> 19);
  if (scale < -1022 - 52 || scale > 1023 - 54) return 0;
  return __builtin_ldexp((double)(mantissa + (rest > half)), scale);
}

double json_read_double(const char *text, const char *end) {
  static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *p = text;
  int is_negative = *p == '-';
  p += is_negative;
  uint64_t digits = 0;
  int count = 0, exponent = 0;
  for (; p < end && *p >= '0' && *p <= '9'; p++) digits = digits * 10 + (uint64_t)(*p - '0'), count += digits != 0;
  if (p < end && *p == '.')
    for (p++; p < end && *p >= '0' && *p <= '9'; p++, exponent--)
      digits = digits * 10 + (uint64_t)(*p - '0'), count += digits != 0;
  if (p < end) {
    int is_small = *++p == '-', written = 0;
    p += *p == '-' || *p == '+';
    for (; p < end && written < 10000; p++) written = written * 10 + (*p - '0');
    exponent += is_small ? -written : written;
  }
  // Digits and power of ten are both exact as floats, so one rounding gives the exact result.
  if (count <= 15 && exponent >= -22 && exponent <= 22) {
    double number = exponent < 0 ? (double)digits / tens[-exponent] : (double)digits * tens[exponent];
    return is_negative ? -number : number;
  }
  double number = count <= 19 && digits ? nearest(digits, exponent) : 0;
  if (number > 0) return is_negative ? -number : number;
  // The script's locale may have a comma as decimal point.
  pthread_once(&once, make_powers);
  return strtod_l(text, NULL, plain_locale);
}
