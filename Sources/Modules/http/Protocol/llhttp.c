// The parser of the distribution (package node-llhttp), built from where it is installed. Its other half is in llhttp_api.c.
#pragma clang diagnostic ignored "-Weverything"
#include "llhttp.h"

#include "/usr/share/llhttp/llhttp.c"
