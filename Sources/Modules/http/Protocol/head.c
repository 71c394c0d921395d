// Reads heads of requests and responses: first checks for the errors that llhttp tolerates, then lets llhttp read the
// head.
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "HTTP.h"
#include "llhttp.h"

// RFC 9110: tchar.
static const unsigned char token_bytes[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1,         ['&'] = 1,         ['\''] = 1,
    ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,         ['^'] = 1,         ['_'] = 1,
    ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1};

int http_is_token(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (!token_bytes[(unsigned char)bytes[i]]) return 0;
  return length > 0;
}

// Whether one of eight bytes may be a control character. The result is also true for tabs, which are allowed.
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

static int refuse(http_head *head, int status, const char *problem) {
  head->status = status;
  head->problem = problem;
  return -1;
}

// Finds the end of the head; sets 0 if the end has not arrived. Each line has to end with CR LF, and neither may stand
// alone: some servers accept a bare CR or LF as the end of a line, and others do not.
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

// METHOD TARGET HTTP/1.x, with one blank between them.
static int check_request_line(http_head *head, const char *bytes, const char *end) {
  const char *first = memchr(bytes, ' ', (size_t)(end - bytes));
  if (!first || !http_is_token(bytes, (size_t)(first - bytes))) return refuse(head, 400, "not a request line");
  const char *second = memchr(first + 1, ' ', (size_t)(end - first - 1));
  if (!second || second == first + 1 || end - second != 9 || memcmp(second + 1, "HTTP/", 5) != 0)
    return refuse(head, 400, "not a request line");
  if (memcmp(second + 6, "1.1", 3) != 0 && memcmp(second + 6, "1.0", 3) != 0)
    return refuse(
        head, isdigit((unsigned char)second[6]) && second[7] == '.' && isdigit((unsigned char)second[8]) ? 505 : 400,
        "this is not HTTP/1");
  for (const char *p = first + 1; p < second; p++)
    if (*p <= 32 || *p == 127 || *p == '#' || *p == '\\' || *p == '"' || *p == '<' || *p == '>')
      return refuse(head, 400, "a byte that a target must not contain");
  head->method = (http_span){bytes, (size_t)(first - bytes)};
  head->target = (http_span){first + 1, (size_t)(second - first - 1)};
  head->minor = second[8] - '0';
  return 1;
}

static int check_status_line(http_head *head, const char *bytes, const char *end) {
  if (end - bytes < 12 || memcmp(bytes, "HTTP/1.", 7) != 0 || (bytes[7] != '0' && bytes[7] != '1') || bytes[8] != ' ')
    return refuse(head, 502, "not a status line");
  for (int i = 9; i < 12; i++)
    if (!isdigit((unsigned char)bytes[i])) return refuse(head, 502, "not a status line");
  if (bytes[9] < '1' || (bytes + 12 < end && bytes[12] != ' ')) return refuse(head, 502, "not a status line");
  head->status = (bytes[9] - '0') * 100 + (bytes[10] - '0') * 10 + (bytes[11] - '0');
  head->minor = bytes[7] - '0';
  const char *reason = bytes + 12 < end ? bytes + 13 : end;
  head->reason = (http_span){reason, (size_t)(end - reason)};
  if (!http_is_value(reason, head->reason.length) || memchr(reason, '\t', head->reason.length))
    return refuse(head, 400, "a control character in the first line");
  return 1;
}

// chunks.c reads bodies.
static int pause(llhttp_t *parser) { return (void)parser, HPE_PAUSED; }
static int skip_body(llhttp_t *parser) { return (void)parser, 1; }

static const llhttp_settings_t settings_of[] = {
    [HTTP_REQUEST] = {.on_headers_complete = pause}, [HTTP_RESPONSE] = {.on_headers_complete = skip_body}};

// A host's name or address, perhaps with a port.
static int is_host(http_span host) {
  for (size_t i = 0; i < host.length; i++) {
    unsigned char c = (unsigned char)host.start[i];
    if (!isalnum(c) && !strchr("-._~:[]%!$&'()*+;=", c)) return 0;
  }
  return 1;
}

// The fields so far that decide about the body and the connection.
typedef struct framing {
  int lengths, encodings, hosts, upgrades, wants_upgrade, closes;
} framing;

static int note_length(http_head *head, framing *framing, http_span value) {
  if (framing->lengths++) return refuse(head, 400, "two Content-Length fields");
  if (!http_read_length(value, &head->content_length))
    return refuse(head, 400, "a Content-Length that is not a number");
  return 1;
}

static int note_encoding(http_head *head, framing *framing, http_span value) {
  if (framing->encodings++ || !http_is(value, "chunked"))
    return refuse(head, head->is_response ? 502 : 400, "a Transfer-Encoding other than chunked");
  return head->is_chunked = 1;
}

// The end of the body must not be ambiguous, since the next message begins there.
static int note_field(http_head *head, framing *framing, http_span name, http_span value) {
  if (head->is_response && !http_note_answer_field(&head->answer, name, value))
    return refuse(head, 502, head->answer.problem);
  switch (name.length) {
    case 4:
      if (!http_is(name, "host")) return 1;
      if (!is_host(value)) return refuse(head, 400, "a Host field that does not contain a host");
      framing->hosts++;
      return 1;
    case 6:
      if (!http_is(name, "expect")) return 1;
      if (!http_is(value, "100-continue")) return refuse(head, 417, "an expectation other than 100-continue");
      head->expects_continue = head->minor == 1;
      return 1;
    case 7: return framing->upgrades += http_is(name, "upgrade"), 1;
    case 10:
      if (!http_is(name, "connection")) return 1;
      framing->closes |= http_list_has(value, "close");
      if (http_list_has(value, "keep-alive")) head->keeps_alive = 1;
      framing->wants_upgrade |= http_list_has(value, "upgrade");
      return 1;
    case 14: return head->is_response || !http_is(name, "content-length") ? 1 : note_length(head, framing, value);
    case 17: return !http_is(name, "transfer-encoding") ? 1 : note_encoding(head, framing, value);
    default: return 1;
  }
}

// Checks for errors that llhttp 8 tolerates or reads in a harmless way. Errors of the framing set `is_framed` to 0: the
// caller reports errors that llhttp finds before them. `p`: the end of the first line; `end`: the empty line.
static int check_lines(http_head *head, const char *p, const char *end, int max_fields, framing *framing,
                       int *is_framed) {
  int count = 0;
  for (p += 2; p < end; count++) {
    const char *line_end = memchr(p, '\r', (size_t)(end - p) + 1);
    if (*p == ' ' || *p == '\t') return refuse(head, 400, "a field that continues on a second line");
    const char *colon = memchr(p, ':', (size_t)(line_end - p));
    if (!colon || !http_is_token(p, (size_t)(colon - p))) return refuse(head, 400, "a field without a valid name");
    http_span name = {p, (size_t)(colon - p)}, value = {colon + 1, (size_t)(line_end - colon - 1)};
    if (!http_is_value(value.start, value.length)) return refuse(head, 400, "a control character in a field");
    if (*is_framed) *is_framed = note_field(head, framing, name, http_trim(value)) > 0;
    p = line_end + 2;
  }
  return count <= max_fields ? 1 : refuse(head, 431, "too many fields");
}

static int check_framing(http_head *head, const framing *framing) {
  if (framing->closes) head->keeps_alive = 0;
  head->is_upgrade = framing->upgrades > 0 && framing->wants_upgrade && head->minor == 1;
  if (framing->lengths && framing->encodings) return refuse(head, 400, "both Content-Length and Transfer-Encoding");
  if (framing->encodings && head->minor == 0) return refuse(head, 400, "Transfer-Encoding in HTTP/1.0");
  if (head->is_response) return 1;
  if (framing->hosts > 1 || (framing->hosts == 0 && head->minor == 1)) return refuse(head, 400, "not one Host field");
  return 1;
}

int http_read_head(http_head *head, const char *bytes, size_t length, int is_response, size_t max_length,
                   int max_fields) {
  head->is_response = is_response;
  head->is_chunked = head->is_upgrade = head->expects_continue = 0;
  head->content_length = -1;
  if (is_response) head->answer = (http_answer_length){0};
  head->problem = NULL;
  // Some clients send an empty line after a request's body: skip it.
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
  if (line < 0) return -1;
  int status = head->status, is_framed = 1;
  framing framing = {0};
  head->keeps_alive = head->minor == 1;
  if (check_lines(head, line_end, start + end - 2, max_fields, &framing, &is_framed) < 0) return -1;

  llhttp_t parser;
  llhttp_type_t type = is_response ? HTTP_RESPONSE : HTTP_REQUEST;
  llhttp_init(&parser, type, &settings_of[type]);
  llhttp_errno_t error = llhttp_execute(&parser, start, end);
  if (error == HPE_INVALID_METHOD) return refuse(head, 501, "an unknown method");
  if (!is_framed || check_framing(head, &framing) < 0) return -1;
  // An answer may repeat its length, which llhttp refuses.
  if (is_response && (error == HPE_UNEXPECTED_CONTENT_LENGTH || error == HPE_INVALID_CONTENT_LENGTH)) error = HPE_OK;
  if (is_response && head->answer.has_length) head->content_length = head->answer.length;
  if (error != HPE_OK && error != HPE_PAUSED && error != HPE_PAUSED_UPGRADE && error != HPE_CB_HEADERS_COMPLETE)
    return refuse(head, 400, llhttp_errno_name(error));
  head->status = is_response ? status : 0;
  return 1;
}

http_span http_fields(const char *bytes, size_t length) {
  const char *end = bytes + length;
  while (bytes < end && (*bytes == '\r' || *bytes == '\n')) bytes++;
  const char *line = memchr(bytes, '\n', (size_t)(end - bytes));
  return line ? (http_span){line + 1, (size_t)(end - line - 1)} : (http_span){end, 0};
}

int http_next_field(http_span *rest, http_field *field) {
  const char *next = rest->length && *rest->start != '\r' ? memchr(rest->start, '\n', rest->length) : NULL;
  const char *colon = next ? memchr(rest->start, ':', (size_t)(next - rest->start)) : NULL;
  if (!colon) return 0;
  *field = (http_field){{rest->start, (size_t)(colon - rest->start)},
                        http_trim((http_span){colon + 1, (size_t)(next - 1 - colon - 1)})};
  *rest = (http_span){next + 1, rest->length - (size_t)(next + 1 - rest->start)};
  return 1;
}
