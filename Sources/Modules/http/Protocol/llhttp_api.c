// The half of the distribution's parser that calls back; see llhttp.c.
#pragma clang diagnostic ignored "-Weverything"
#include "llhttp.h"

#include "/usr/share/llhttp/api.c"
#include "/usr/share/llhttp/http.c"
