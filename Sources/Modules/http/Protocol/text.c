// Dates, escapes, and paths that cannot leave their root.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "HTTP.h"

int http_is(http_span span, const char *word) {
  return span.length == strlen(word) && strncasecmp(span.start, word, span.length) == 0;
}

http_span http_trim(http_span span) {
  while (span.length && (*span.start == ' ' || *span.start == '\t')) span.start++, span.length--;
  while (span.length && (span.start[span.length - 1] == ' ' || span.start[span.length - 1] == '\t')) span.length--;
  return span;
}

int http_list_has(http_span list, const char *word) {
  while (list.length) {
    const char *comma = memchr(list.start, ',', list.length);
    size_t length = comma ? (size_t)(comma - list.start) : list.length;
    if (http_is(http_trim((http_span){list.start, length}), word)) return 1;
    if (!comma) break;
    list.start += length + 1;
    list.length -= length + 1;
  }
  return 0;
}

static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

void http_write_date(char to[30], int64_t seconds) {
  struct tm date;
  time_t time = (time_t)seconds;
  if (!gmtime_r(&time, &date) || date.tm_year > 8099 || date.tm_year < -1900) gmtime_r(&(time_t){0}, &date);
  snprintf(to, 30, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * date.tm_wday, date.tm_mday,
           months + 3 * date.tm_mon, date.tm_year + 1900, date.tm_hour, date.tm_min, date.tm_sec);
}

int64_t http_read_date(const char *bytes, size_t length) {
  char text[40], month[4] = "", zone[4] = "";
  if (length >= sizeof text) return -1;
  memcpy(text, bytes, length);
  text[length] = 0;
  int day, year, hour, minute, second;
  const char *comma = strchr(text, ',');
  int is_right;
  if (comma) {
    static const char rfc1123[] = " %2d %3[A-Za-z] %4d %2d:%2d:%2d %3s";
    static const char rfc850[] = " %2d-%3[A-Za-z]-%4d %2d:%2d:%2d %3s";
    is_right = (sscanf(comma + 1, rfc1123, &day, month, &year, &hour, &minute, &second, zone) == 7 ||
                sscanf(comma + 1, rfc850, &day, month, &year, &hour, &minute, &second, zone) == 7) &&
               strcmp(zone, "GMT") == 0;
  } else {
    static const char asctime[] = "%*3s %3[A-Za-z] %2d %2d:%2d:%2d %4d";
    is_right = sscanf(text, asctime, month, &day, &hour, &minute, &second, &year) == 6;
  }
  const char *found = is_right && strlen(month) == 3 ? strstr(months, month) : NULL;
  if (!found || (found - months) % 3 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 || hour < 0 ||
      minute < 0 || second < 0)
    return -1;
  // A year of two digits is at most fifty years in the future.
  if (year < 100) year += year < 77 ? 2000 : 1900;
  struct tm date = {.tm_sec = second,
                    .tm_min = minute,
                    .tm_hour = hour,
                    .tm_mday = day,
                    .tm_mon = (int)(found - months) / 3,
                    .tm_year = year - 1900};
  return timegm(&date);
}

ptrdiff_t http_unescape(char *to, const char *bytes, size_t length, int is_form) {
  char *p = to;
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] == '%') {
      if (length - i < 3 || http_digit(bytes[i + 1]) < 0 || http_digit(bytes[i + 2]) < 0) {
        if (!is_form) return -1;
        *p++ = '%';
        continue;
      }
      *p++ = (char)(http_digit(bytes[i + 1]) << 4 | http_digit(bytes[i + 2]));
      i += 2;
    } else {
      *p++ = is_form && bytes[i] == '+' ? ' ' : bytes[i];
    }
  }
  return p - to;
}

// Splits the path first and decodes each segment afterwards: %2e%2e is "..", and %2F is a slash within a segment.
ptrdiff_t http_clean_path(char *to, const char *bytes, size_t length, int *has_slashes) {
  *has_slashes = 0;
  if (length == 0 || bytes[0] != '/') return -1;
  const char *end = bytes + length;
  char *p = to;
  while (bytes < end) {
    // `bytes` is at a slash.
    while (bytes < end && *bytes == '/') bytes++;
    const char *next = memchr(bytes, '/', (size_t)(end - bytes));
    char *segment = p + 1;
    ptrdiff_t count = http_unescape(segment, bytes, (size_t)((next ? next : end) - bytes), 0);
    if (count < 0 || memchr(segment, 0, (size_t)count) || memchr(segment, '\\', (size_t)count)) return -1;
    if (count == 2 && segment[0] == '.' && segment[1] == '.') {
      if (p == to) return -1;
      while (*--p != '/') {}
      if (!next) *p++ = '/';
    } else if (count == 0 || (count == 1 && segment[0] == '.')) {
      if (!next) *p++ = '/';
    } else {
      if (memchr(segment, '/', (size_t)count)) {
        *has_slashes = 1;
        for (ptrdiff_t i = 0; i < count; i++)
          if (segment[i] == '/') segment[i] = 0;
      }
      *p = '/';
      p += count + 1;
    }
    if (!next) break;
    bytes = next;
  }
  return p - to;
}
