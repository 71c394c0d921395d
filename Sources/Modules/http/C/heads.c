// Reads the fields of an answer's head that curl does not report.
#include <string.h>
#include <strings.h>

#include "transfers.h"

void lua_head_codings(const linux_bytes *head, char *codings, size_t size) {
  static const char name[] = "\ncontent-encoding:";
  size_t length = 0;
  for (size_t i = 0; i + sizeof name < head->length; i++) {
    if (strncasecmp(head->bytes + i, name, sizeof name - 1) != 0) continue;
    if (length && length + 1 < size) codings[length++] = ',';
    for (i += sizeof name - 1;
         i < head->length && head->bytes[i] != '\r' && head->bytes[i] != '\n' && length + 1 < size; i++)
      if (length || (head->bytes[i] != ' ' && head->bytes[i] != '\t')) codings[length++] = head->bytes[i];
    i--;
  }
  codings[length] = 0;
}

// Whether the head has a field of this name that is not empty. The name ends with its colon.
static int has_field(const linux_bytes *head, const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; i + 1 + length < head->length; i++) {
    if (head->bytes[i] != '\n' || strncasecmp(head->bytes + i + 1, name, length) != 0) continue;
    size_t at = i + 1 + length;
    while (at < head->length && (head->bytes[at] == ' ' || head->bytes[at] == '\t')) at++;
    if (at < head->length && head->bytes[at] != '\r' && head->bytes[at] != '\n') return 1;
  }
  return 0;
}

int lua_head_leads_on(long status, const linux_bytes *head) {
  if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308) return 0;
  return has_field(head, "location:");
}

int lua_head_ends_with_connection(long status, const linux_bytes *head) {
  if (status == 204 || status == 304 || head->length < 7 || memcmp(head->bytes, "HTTP/1.", 7) != 0) return 0;
  return !has_field(head, "content-length:") && !has_field(head, "transfer-encoding:");
}
