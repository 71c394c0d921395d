#include "hosts.h"

#include <dlfcn.h>
#include <errno.h>
#include <idn2.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "libraries.h"

static struct {
  __typeof__(idn2_to_ascii_8z) *to_ascii;
  __typeof__(idn2_to_unicode_8z8z) *to_unicode;
  __typeof__(idn2_strerror) *words;
  __typeof__(idn2_free) *release;
} idn;

static const char *find_functions(void *library) {
  if (!(idn.to_ascii = dlsym(library, "idn2_to_ascii_8z"))) return "has no idn2_to_ascii_8z: it is too old";
  if (!(idn.to_unicode = dlsym(library, "idn2_to_unicode_8z8z"))) return "has no idn2_to_unicode_8z8z: it is too old";
  if (!(idn.words = dlsym(library, "idn2_strerror"))) return "has no idn2_strerror: it is too old";
  if (!(idn.release = dlsym(library, "idn2_free"))) return "has no idn2_free: it is too old";
  return NULL;
}

static int refuse(char code[32], char text[512], const char *name, const char *reason, const char *what) {
  snprintf(code, 32, "%s", what);
  snprintf(text, 512, "%.220s (%.260s)", reason, name);
  return 0;
}

static struct linux_library library = {"libidn2.so.0", "libidn2-0", find_functions, 0};

// `allowed`: the characters that the result may have; NULL: any.
static int convert(const char *name, const char *allowed, char out[256], char code[32], char text[512]) {
  size_t ascii = 0;
  // Without the cast, bytes above 127 would be negative only on machines whose `char` is signed.
  while ((signed char)name[ascii] > 0) ascii++;
  if (!name[ascii]) {
    if (ascii > 255) return refuse(code, text, name, "a host name has at most 255 bytes", "EINVAL");
    memcpy(out, name, ascii + 1);
    return 1;
  }
  char problem[200];
  const int error = linux_use_library(&library, problem, sizeof problem);
  if (error) return refuse(code, text, name, problem, error == ENOPKG ? "IDN_MISSING" : linux_error_name(error));
  char *found = NULL;
  int result = idn.to_ascii(name, &found, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
  // IDNA 2003 allowed symbols in names, and browsers still accept them.
  if (result == IDN2_DISALLOWED) result = idn.to_ascii(name, &found, IDN2_NFC_INPUT | IDN2_TRANSITIONAL);
  if (result != IDN2_OK) {
    snprintf(problem, sizeof problem, "not a host name: %s", idn.words(result));
    return refuse(code, text, name, problem, "EINVAL");
  }
  // Check the characters of the result: a slash in a host name, for example, would change the meaning of a URL.
  const size_t length = strlen(found);
  const int is_name = length > 0 && length < 256 && (!allowed || strspn(found, allowed) == length);
  if (is_name) memcpy(out, found, length + 1);
  idn.release(found);
  if (is_name) return 1;
  return refuse(code, text, name, "not a host name: it maps to characters that host names cannot have", "EINVAL");
}

int linux_ascii_host(const char *name, char out[256], char code[32], char text[512]) {
  return convert(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_", out, code, text);
}

int linux_ascii_label(const char *name, char out[256], char code[32], char text[512]) {
  return convert(name, NULL, out, code, text);
}

int linux_check_punycode(const char *label, char out[256], char code[32], char text[512]) {
  char problem[200];
  if (strlen(label) > 255) return refuse(code, text, label, "a host name has at most 255 bytes", "EINVAL");
  if (linux_use_library(&library, problem, sizeof problem)) {
    memcpy(out, label, strlen(label) + 1);
    return 1;
  }
  char *name = NULL;
  int result = idn.to_unicode(label, &name, 0);
  int is_good = result == IDN2_OK && linux_ascii_label(name, out, code, text) && strcmp(out, label) == 0;
  if (name) idn.release(name);
  return is_good ? 1 : refuse(code, text, label, "not a host name: invalid Punycode", "EINVAL");
}
