// Heads of requests and responses: llhttp reads them, behind a check for what it lets pass.
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "HTTP.h"
#include "llhttp.h"

// RFC 9110: tchar.
static const unsigned char token_bytes[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1, ['^'] = 1,
    ['_'] = 1, ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1};

int http_is_token(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (!token_bytes[(unsigned char)bytes[i]]) return 0;
  return length > 0;
}

// Eight bytes at a time: whether one of them may be a control character. Of tabs, which may be there, it says so, too.
static int may_have_control(uint64_t eight) {
  const uint64_t ones = ~UINT64_C(0) / 255, tops = ones << 7, deleted = eight ^ (ones * 127);
  return (((eight - ones * 32) & ~eight & tops) | ((deleted - ones) & ~deleted & tops)) != 0;
}

int http_is_value(const char *bytes, size_t length) {
  size_t i = 0;
  for (uint64_t eight; i + 8 <= length; i += 8) {
    memcpy(&eight, bytes + i, 8);
    if (may_have_control(eight)) break;
  }
  for (; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if ((c < 32 && c != '\t') || c == 127) return 0;
  }
  return 1;
}

int http_is(http_span span, const char *word) {
  return span.length == strlen(word) && strncasecmp(span.start, word, span.length) == 0;
}

static http_span trim(http_span span) {
  while (span.length && (*span.start == ' ' || *span.start == '\t')) span.start++, span.length--;
  while (span.length && (span.start[span.length - 1] == ' ' || span.start[span.length - 1] == '\t')) span.length--;
  return span;
}

int http_list_has(http_span list, const char *word) {
  while (list.length) {
    const char *comma = memchr(list.start, ',', list.length);
    size_t length = comma ? (size_t)(comma - list.start) : list.length;
    if (http_is(trim((http_span){list.start, length}), word)) return 1;
    if (!comma) break;
    list.start += length + 1;
    list.length -= length + 1;
  }
  return 0;
}

static int refuse(http_head *head, int status, const char *problem) {
  head->status = status;
  head->problem = problem;
  return -1;
}

// The end of the head, or 0. Every line has to end with CR LF, and neither of them may stand alone: a bare one is the end of a line
// for some servers, and none for others.
static int find_end(http_head *head, const char *bytes, size_t length, size_t *end) {
  *end = 0;
  for (size_t i = 0; i < length;) {
    const char *lf = memchr(bytes + i, '\n', length - i);
    size_t line_end = lf ? (size_t)(lf - bytes) : length;
    const char *cr = memchr(bytes + i, '\r', line_end - i);
    if (cr && cr + 1 < bytes + length && cr + 1 != lf) return refuse(head, 400, "a CR without LF");
    if (!lf) return 0;
    if (!cr) return refuse(head, 400, "a LF without CR");
    if (line_end == i + 1 && i > 0) {
      *end = line_end + 1;
      return 1;
    }
    i = line_end + 1;
  }
  return 0;
}

// What llhttp 8 lets pass, or takes for the harmless variant of something else.
static int check_lines(http_head *head, const char *bytes, size_t length) {
  const char *end = bytes + length - 2;  // the empty line
  const char *p = memchr(bytes, '\r', length);
  if (!http_is_value(bytes, (size_t)(p - bytes)) || memchr(bytes, '\t', (size_t)(p - bytes)))
    return refuse(head, 400, "a control character in the first line");
  for (p += 2; p < end;) {
    const char *line_end = memchr(p, '\r', (size_t)(end - p) + 1);
    if (*p == ' ' || *p == '\t') return refuse(head, 400, "a field that goes on in a second line");
    const char *colon = memchr(p, ':', (size_t)(line_end - p));
    if (!colon || !http_is_token(p, (size_t)(colon - p))) return refuse(head, 400, "a field without a proper name");
    if (!http_is_value(colon + 1, (size_t)(line_end - colon - 1)))
      return refuse(head, 400, "a control character in a field");
    p = line_end + 2;
  }
  return 1;
}

// METHOD TARGET HTTP/1.x, with one blank between them.
static int check_request_line(http_head *head, const char *bytes, const char *end) {
  const char *first = memchr(bytes, ' ', (size_t)(end - bytes));
  if (!first || !http_is_token(bytes, (size_t)(first - bytes))) return refuse(head, 400, "this is no request line");
  const char *second = memchr(first + 1, ' ', (size_t)(end - first - 1));
  if (!second || second == first + 1 || end - second != 9 || memcmp(second + 1, "HTTP/", 5) != 0)
    return refuse(head, 400, "this is no request line");
  if (memcmp(second + 6, "1.1", 3) != 0 && memcmp(second + 6, "1.0", 3) != 0)
    return refuse(head, isdigit((unsigned char)second[6]) && second[7] == '.' && isdigit((unsigned char)second[8]) ? 505 : 400, "this is not HTTP/1");
  for (const char *p = first + 1; p < second; p++)
    if (*p <= 32 || *p == 127 || *p == '#' || *p == '\\' || *p == '"' || *p == '<' || *p == '>')
      return refuse(head, 400, "a byte that a target must not have");
  head->method = (http_span){bytes, (size_t)(first - bytes)};
  head->target = (http_span){first + 1, (size_t)(second - first - 1)};
  head->minor = second[8] - '0';
  return 1;
}

static int check_status_line(http_head *head, const char *bytes, const char *end) {
  if (end - bytes < 12 || memcmp(bytes, "HTTP/1.", 7) != 0 || (bytes[7] != '0' && bytes[7] != '1') || bytes[8] != ' ')
    return refuse(head, 502, "this is no status line");
  for (int i = 9; i < 12; i++)
    if (!isdigit((unsigned char)bytes[i])) return refuse(head, 502, "this is no status line");
  if (bytes[9] < '1' || (bytes + 12 < end && bytes[12] != ' ')) return refuse(head, 502, "this is no status line");
  head->status = (bytes[9] - '0') * 100 + (bytes[10] - '0') * 10 + (bytes[11] - '0');
  head->minor = bytes[7] - '0';
  const char *reason = bytes + 12 < end ? bytes + 13 : end;
  head->reason = (http_span){reason, (size_t)(end - reason)};
  return 1;
}

static http_head *head_of(llhttp_t *parser) { return parser->data; }

// All bytes are there, so that each span comes in one piece.
static int on_field(llhttp_t *parser, const char *at, size_t length) {
  http_head *head = head_of(parser);
  if (head->field_count == HTTP_MAX_FIELDS) return -1;
  http_field *field = &head->fields[head->field_count++];
  field->name = (http_span){at, length};
  field->value = (http_span){at + length, 0};
  return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t length) {
  head_of(parser)->fields[head_of(parser)->field_count - 1].value = trim((http_span){at, length});
  return 0;
}

// The body is ours: see chunks.c.
static int on_headers_complete(llhttp_t *parser) { return head_of(parser)->is_response ? 1 : HPE_PAUSED; }

static const llhttp_settings_t settings = {
    .on_header_field = on_field, .on_header_value = on_value, .on_headers_complete = on_headers_complete};

// A host's name, or an address, and a port.
static int is_host(http_span host) {
  for (size_t i = 0; i < host.length; i++) {
    unsigned char c = (unsigned char)host.start[i];
    if (!isalnum(c) && !strchr("-._~:[]%!$&'()*+;=", c)) return 0;
  }
  return 1;
}

// Who decides where the body ends decides what the next request is: there must be one answer to that.
static int check_framing(http_head *head) {
  int lengths = 0, encodings = 0, hosts = 0;
  head->content_length = -1;
  head->keeps_alive = head->minor == 1;
  int upgrades = 0, wants_upgrade = 0, closes = 0;
  for (int i = 0; i < head->field_count; i++) {
    http_span name = head->fields[i].name, value = head->fields[i].value;
    switch (name.length) {
      case 4:
        if (http_is(name, "host")) {
          if (!is_host(value)) return refuse(head, 400, "a Host that is none");
          hosts++;
        }
        break;
      case 6:
        if (http_is(name, "expect")) {
          if (!http_is(value, "100-continue")) return refuse(head, 417, "an expectation other than 100-continue");
          head->expects_continue = head->minor == 1;
        }
        break;
      case 7: upgrades += http_is(name, "upgrade"); break;
      case 10:
        if (!http_is(name, "connection")) break;
        closes |= http_list_has(value, "close");
        if (http_list_has(value, "keep-alive")) head->keeps_alive = 1;
        wants_upgrade |= http_list_has(value, "upgrade");
        break;
      case 14:
        if (!http_is(name, "content-length")) break;
        if (lengths++) return refuse(head, 400, "two Content-Length fields");
        if (value.length == 0 || value.length > 18) return refuse(head, 400, "a Content-Length that is no number");
        head->content_length = 0;
        for (size_t k = 0; k < value.length; k++) {
          if (!isdigit((unsigned char)value.start[k])) return refuse(head, 400, "a Content-Length that is no number");
          head->content_length = head->content_length * 10 + (value.start[k] - '0');
        }
        break;
      case 17:
        if (!http_is(name, "transfer-encoding")) break;
        if (encodings++ || !http_is(value, "chunked"))
          return refuse(head, head->is_response ? 502 : 400, "a Transfer-Encoding other than chunked");
        head->is_chunked = 1;
        break;
    }
  }
  if (closes) head->keeps_alive = 0;
  head->is_upgrade = upgrades > 0 && wants_upgrade && head->minor == 1;
  if (lengths && encodings) return refuse(head, 400, "both Content-Length and Transfer-Encoding");
  if (encodings && head->minor == 0) return refuse(head, 400, "Transfer-Encoding in HTTP/1.0");
  if (head->is_response) return 1;
  if (hosts > 1 || (hosts == 0 && head->minor == 1)) return refuse(head, 400, "not exactly one Host");
  return 1;
}

int http_read_head(http_head *head, const char *bytes, size_t length, int is_response, size_t max_length) {
  head->field_count = 0;
  head->is_response = is_response;
  head->is_chunked = head->is_upgrade = head->expects_continue = 0;
  head->problem = NULL;
  // An empty line before a request is what some clients send behind the body of the one before.
  size_t skipped = 0;
  while (!is_response && length - skipped >= 2 && skipped < 4 && bytes[skipped] == '\r' && bytes[skipped + 1] == '\n')
    skipped += 2;
  const char *start = bytes + skipped;
  size_t available = length - skipped, end;
  int found = find_end(head, start, available < max_length + 4 ? available : max_length + 4, &end);
  if (found < 0) return found;
  if (!found) {
    if (available <= max_length) return 0;
    if (!memchr(start, '\n', max_length)) return refuse(head, 414, "the target is too long");
    return refuse(head, 431, "the head is too long");
  }
  if (end > max_length) return refuse(head, 431, "the head is too long");
  head->length = skipped + end;
  const char *line_end = memchr(start, '\r', end);
  int line = is_response ? check_status_line(head, start, line_end) : check_request_line(head, start, line_end);
  if (line < 0 || check_lines(head, start, end) < 0) return -1;
  int status = head->status;

  llhttp_t parser;
  llhttp_init(&parser, is_response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
  parser.data = head;
  llhttp_errno_t error = llhttp_execute(&parser, start, end);
  if (head->field_count == HTTP_MAX_FIELDS && error == HPE_USER) return refuse(head, 431, "too many fields");
  if (error == HPE_INVALID_METHOD) return refuse(head, 501, "a method that is not known here");
  if (check_framing(head) < 0) return -1;
  if (error != HPE_OK && error != HPE_PAUSED && error != HPE_PAUSED_UPGRADE && error != HPE_CB_HEADERS_COMPLETE)
    return refuse(head, 400, llhttp_errno_name(error));
  head->status = is_response ? status : 0;
  return 1;
}

void http_read_fields(http_head *head, const char *bytes, size_t length) {
  const char *end = bytes + length;
  head->field_count = 0;
  while (bytes < end && (*bytes == '\r' || *bytes == '\n')) bytes++;
  const char *line = memchr(bytes, '\n', (size_t)(end - bytes));
  while (line && ++line < end && *line != '\r' && head->field_count < HTTP_MAX_FIELDS) {
    const char *next = memchr(line, '\n', (size_t)(end - line));
    const char *colon = next ? memchr(line, ':', (size_t)(next - line)) : NULL;
    if (!colon) break;
    head->fields[head->field_count++] = (http_field){
        {line, (size_t)(colon - line)}, trim((http_span){colon + 1, (size_t)(next - 1 - colon - 1)})};
    line = next;
  }
}
