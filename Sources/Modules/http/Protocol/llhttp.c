// The parser of the distribution (package node-llhttp), compiled from its installed source. llhttp_api.c has the other
// half.
#pragma clang diagnostic ignored "-Weverything"
#include "llhttp.h"

#include "/usr/share/llhttp/llhttp.c"
