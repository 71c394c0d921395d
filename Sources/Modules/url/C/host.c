// Hosts of URLs: domains, with international names by libidn2, and addresses, whose many spellings become one.
#include <hosts.h>
#include <stdio.h>
#include <string.h>

#include "url.h"

static int forbid(url *to, const char *text, size_t length, int class) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (!(url_classes[c] & class)) continue;
    if (c == ' ') return url_fail(to, "the host has a blank");
    snprintf(to->problem, sizeof to->problem,
             c > 32 && c < 127 ? "the host has a '%c'" : "the host has the byte 0x%02X", c);
    return 0;
  }
  return 1;
}

// Addresses -----------------------------------------------------------------------------------------------------------

// Reads a decimal, hexadecimal (0x) or octal (0) number. Returns -1 for other texts.
static int64_t read_number(const char *p, const char *end) {
  int radix = 10;
  if (p == end) return -1;
  if (end - p >= 2 && *p == '0') {
    radix = (p[1] | 32) == 'x' ? 16 : 8;
    p += radix == 16 ? 2 : 1;
  }
  int64_t number = 0;
  for (; p < end; p++) {
    int digit = url_digit(*p);
    if (digit < 0 || digit >= radix) return -1;
    if (number < (int64_t)1 << 40) number = number * radix + digit;
  }
  return number;
}

// Whether the last label of a domain is a number, which makes the host an address.
static int ends_in_number(const char *text, size_t length) {
  const char *end = text + length;
  if (length > 1 && end[-1] == '.') end--;
  const char *last = end;
  while (last > text && last[-1] != '.') last--;
  if (last == end || *last < '0' || *last > '9') return 0;
  const char *p = last;
  while (p < end && *p >= '0' && *p <= '9') p++;
  return p == end || read_number(last, end) >= 0;
}

static int write_ipv4(url *to, const char *text, size_t length) {
  const char *end = text + length;
  if (length > 1 && end[-1] == '.') end--;
  uint64_t address = 0, most = (uint64_t)1 << 32;
  for (int count = 0;; count++) {
    const char *dot = memchr(text, '.', (size_t)(end - text)), *last = dot ? dot : end;
    int64_t number = count < 4 ? read_number(text, last) : -1;
    if (number < 0 || (dot && number > 255) || (uint64_t)number >= most)
      return url_fail(to, "the host is not an IPv4 address, although it ends in a number");
    if (!dot) {
      address += (uint64_t)number;
      break;
    }
    most >>= 8;
    address += (uint64_t)number * most;
    text = dot + 1;
  }
  char shown[20];
  int count = snprintf(shown, sizeof shown, "%d.%d.%d.%d", (int)(address >> 24), (int)(address >> 16 & 255),
                       (int)(address >> 8 & 255), (int)(address & 255));
  url_append(to, shown, (size_t)count);
  return 1;
}

// Reads the IPv4 address at the end of an IPv6 address into two pieces.
static int read_dotted(const char *p, const char *end, uint16_t pieces[2]) {
  for (int seen = 0; seen < 4; seen++) {
    if (seen && (p == end || *p++ != '.')) return 0;
    if (p == end || *p < '0' || *p > '9') return 0;
    int number = *p++ - '0';
    for (; p < end && *p >= '0' && *p <= '9'; p++)
      if (number == 0 || (number = number * 10 + *p - '0') > 255) return 0;
    pieces[seen / 2] = (uint16_t)(pieces[seen / 2] << 8 | number);
  }
  return p == end;
}

static int read_ipv6(const char *p, const char *end, uint16_t pieces[8]) {
  int count = 0, gap = -1;
  if (p < end && *p == ':') {
    if (end - p < 2 || p[1] != ':') return 0;
    p += 2, gap = ++count;
  }
  while (p < end) {
    if (count == 8) return 0;
    if (*p == ':') {
      if (gap >= 0) return 0;
      p++, gap = ++count;
      continue;
    }
    const char *start = p;
    int value = 0;
    for (; p < end && p - start < 4 && url_digit(*p) >= 0; p++) value = value * 16 + url_digit(*p);
    if (p < end && *p == '.') {
      if (p == start || count > 6 || !read_dotted(start, end, &pieces[count])) return 0;
      count += 2;
      break;
    }
    if (p < end && (*p++ != ':' || p == end)) return 0;
    pieces[count++] = (uint16_t)value;
  }
  if (gap < 0) return count == 8;
  int moved = count - gap;
  memmove(&pieces[8 - moved], &pieces[gap], (size_t)moved * sizeof *pieces);
  if (8 - moved > gap) memset(&pieces[gap], 0, (size_t)(8 - moved - gap) * sizeof *pieces);
  return 1;
}

static int write_ipv6(url *to, const char *text, size_t length) {
  uint16_t pieces[8] = {0};
  if (!read_ipv6(text, text + length, pieces))
    return url_fail(to, "the host is not an IPv6 address, although it is in brackets");
  // The first of the longest runs of zeros, if it is longer than one, becomes "::".
  int run = -1, longest = 1;
  for (int i = 0; i < 8; i++) {
    int count = 0;
    while (i + count < 8 && pieces[i + count] == 0) count++;
    if (count > longest) run = i, longest = count;
    i += count;
  }
  url_append(to, "[", 1);
  for (int i = 0; i < 8; i++) {
    if (i == run) {
      url_append(to, i ? ":" : "::", i ? 1 : 2);
      i += longest - 1;
      continue;
    }
    char shown[8];
    int count = snprintf(shown, sizeof shown, i < 7 ? "%x:" : "%x", pieces[i]);
    url_append(to, shown, (size_t)count);
  }
  url_append(to, "]", 1);
  return 1;
}

// Domains -------------------------------------------------------------------------------------------------------------

// Appends a label of a domain, in lower case and in ASCII.
static int write_label(url *to, char *label, size_t length) {
  int is_ascii = 1;
  for (size_t i = 0; i < length; i++) {
    if (label[i] >= 'A' && label[i] <= 'Z') label[i] |= 32;
    is_ascii &= (signed char)label[i] >= 0;
  }
  if (is_ascii && (length < 4 || memcmp(label, "xn--", 4) != 0)) return url_append(to, label, length), 1;
  char ascii[256], code[32], text[512], after = label[length];
  label[length] = 0;
  int is_good =
      strlen(label) == length && (is_ascii ? linux_check_punycode : linux_ascii_label)(label, ascii, code, text);
  label[length] = after;
  if (is_good) return url_append(to, ascii, strlen(ascii)), 1;
  // The last label has no end mark.
  if (memchr(label, 0, length)) return url_fail(to, "the host has the byte 0x00");
  url_fail(to, text);
  if (strcmp(code, "EINVAL") == 0) return 0;
  to->code = "ENOENT";
  size_t count = strlen(to->problem);
  if (!strstr(text, "apt install"))
    snprintf(to->problem + count, sizeof to->problem - count, " (apt install libidn2-0)");
  return 0;
}

// Appends a domain with percent-encoded or international characters.
static int write_encoded(url *to, const char *text, size_t length) {
  linux_bytes *name = &to->scratch;
  if (!linux_reserve((name->length = 0, name), length + 1)) luaL_error(to->L, "not enough memory");
  char *p = name->bytes;
  for (size_t i = 0; i < length; i++) {
    int is_code = text[i] == '%' && i + 2 < length && url_digit(text[i + 1]) >= 0 && url_digit(text[i + 2]) >= 0;
    *p++ = is_code ? (char)(url_digit(text[i + 1]) << 4 | url_digit(text[i + 2])) : text[i];
    if (is_code) i += 2;
  }
  char *end = p, *label = name->bytes;
  for (p = label; p <= end; p++) {
    // A full stop of three scripts separates labels as well: U+3002, U+FF0E, U+FF61.
    int size = p == end || *p == '.' ? 1
               : end - p >= 3 && (memcmp(p, "\343\200\202", 3) == 0 || memcmp(p, "\357\274\216", 3) == 0 ||
                                  memcmp(p, "\357\275\241", 3) == 0)
                   ? 3
                   : 0;
    if (!size) continue;
    if (!write_label(to, label, (size_t)(p - label))) return 0;
    if (p < end) url_append(to, ".", 1);
    label = p + size;
    p += size - 1;
  }
  return 1;
}

static int write_domain(url *to, const char *text, size_t length) {
  size_t start = to->text.length;
  int is_plain = 1;
  for (size_t i = 0; i < length && is_plain; i++)
    is_plain = (signed char)text[i] >= 0 && text[i] != '%' && !(text[i] == '-' && i >= 3 && text[i - 1] == '-');
  if (!is_plain) {
    if (!write_encoded(to, text, length)) return 0;
  } else {
    url_append(to, text, length);
    for (char *p = to->text.bytes + start; p < to->text.bytes + to->text.length; p++)
      if (*p >= 'A' && *p <= 'Z') *p |= 32;
  }
  const char *name = to->text.bytes + start;
  size_t count = to->text.length - start;
  if (count == 0) return url_fail(to, "the host is empty");
  if (!forbid(to, name, count, URL_NOT_IN_DOMAIN)) return 0;
  if (!ends_in_number(name, count)) return 1;
  // The name moves to the scratch buffer, since the address replaces it in the text.
  to->scratch.length = 0;
  if (!linux_reserve(&to->scratch, count)) luaL_error(to->L, "not enough memory");
  memcpy(to->scratch.bytes, name, count);
  to->text.length = start;
  return write_ipv4(to, to->scratch.bytes, count);
}

int url_write_host(url *to, const char *text, size_t length) {
  if (length && *text == '[') {
    if (text[length - 1] != ']') return url_fail(to, "the host has a '[' without its ']'");
    return write_ipv6(to, text + 1, length - 2);
  }
  if (to->is_special) return write_domain(to, text, length);
  if (!forbid(to, text, length, URL_NOT_IN_HOST)) return 0;
  url_encode(to, text, length, URL_CONTROL);
  return 1;
}
