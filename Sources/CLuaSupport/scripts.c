// The Lua-written parts of the program.
#include "CLuaSupport.h"

static const char prelude[] = {
#embed "lua/prelude.lua"
};
const size_t cl_prelude_length = sizeof prelude;
const char *cl_prelude_text(void) { return prelude; }
