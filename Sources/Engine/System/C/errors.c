#define _GNU_SOURCE
#include "errors.h"

#include <string.h>

const char *linux_error_name(int number) {
  const char *name = strerrorname_np(number);
  return name ? name : "EUNKNOWN";
}

const char *linux_error_text(int number) {
  const char *text = strerrordesc_np(number);
  return text ? text : "Unknown error";
}
