// The header of the distribution's parser, where its own sources look for it.
#pragma once

#define LLHTTP_STRICT_MODE 1
#include "/usr/share/include/llhttp/llhttp.h"
