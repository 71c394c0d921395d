// The Lua-written parts of the prompt, and the reference that its help shows.
#include "CLuaSupport.h"

static const char inspector[] = {
#embed "lua/inspector.lua"
};
static const char repl[] = {
#embed "lua/repl.lua"
};
static const char reference[] = {
#embed "../../docs/lua/runloop.lua"
};

cl_text cl_inspector(void) { return (cl_text){inspector, sizeof inspector}; }
cl_text cl_repl(void) { return (cl_text){repl, sizeof repl}; }
cl_text cl_reference(void) { return (cl_text){reference, sizeof reference}; }
