// Read-only data that nothing points to: a program that makes no recording never touches it.
#include "CTracing.h"

static const char page[] = {
#embed "page.html"
};

const char *tracing_page(size_t *length) {
  *length = sizeof page;
  return page;
}
