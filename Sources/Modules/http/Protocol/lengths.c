// The length of a body, from the fields of its head.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "HTTP.h"

int http_read_length(http_span value, int64_t *length) {
  // 18 digits cannot overflow.
  if (value.length == 0 || value.length > 18) return 0;
  *length = 0;
  for (size_t i = 0; i < value.length; i++) {
    if (value.start[i] < '0' || value.start[i] > '9') return 0;
    *length = *length * 10 + (value.start[i] - '0');
  }
  return 1;
}

static int no_length(http_answer_length *answer, http_span value) {
  char text[41];
  size_t count = value.length < sizeof text - 1 ? value.length : sizeof text - 1;
  // The error text must stay one readable line.
  for (size_t i = 0; i < count; i++) text[i] = value.start[i] < 32 || value.start[i] == 127 ? '?' : value.start[i];
  text[count] = 0;
  snprintf(answer->problem, sizeof answer->problem, "the answer's length is \"%s%s\"", text,
           count < value.length ? "..." : "");
  return 0;
}

// Equal lengths count as one, in several fields and in one list.
static int note_length(http_answer_length *answer, http_span value) {
  for (http_span rest = value;;) {
    const char *comma = memchr(rest.start, ',', rest.length);
    size_t count = comma ? (size_t)(comma - rest.start) : rest.length;
    int64_t length;
    if (!http_read_length(http_trim((http_span){rest.start, count}), &length)) return no_length(answer, value);
    if (answer->has_length && length != answer->length) {
      snprintf(answer->problem, sizeof answer->problem, "the answer has two lengths: %" PRId64 " and %" PRId64,
               answer->length, length);
      return 0;
    }
    answer->has_length = 1;
    answer->length = length;
    if (!comma) return 1;
    rest = (http_span){comma + 1, rest.length - count - 1};
  }
}

int http_note_answer_field(http_answer_length *answer, http_span name, http_span value) {
  if (http_is(name, "content-length")) {
    if (!note_length(answer, value)) return 0;
  } else if (http_is(name, "transfer-encoding")) {
    answer->has_encoding = 1;
  } else {
    return 1;
  }
  if (!answer->has_length || !answer->has_encoding) return 1;
  snprintf(answer->problem, sizeof answer->problem, "the answer has both Content-Length and Transfer-Encoding");
  return 0;
}
