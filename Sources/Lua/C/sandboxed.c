// Lua's library in a sandbox. The originals are kept here and not in upvalues, which a script could read.
#include "sandboxed.h"
#include "private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *(*refusal)(int kind, const char *subject);
static int allows_modules;

typedef enum {
  OPEN,
  LINES,
  INPUT,
  OUTPUT,
  POPEN,
  TMPFILE,
  REMOVE,
  RENAME,
  TMPNAME,
  EXECUTE,
  LOAD,
  LOADFILE,
  DOFILE,
  LOADLIB,
  SEARCHPATH,
  REPLACED
} replaced;
static lua_CFunction original[REPLACED];

// If the sandbox refuses an argument, or `subject`, pushes the message.
static int is_refused(lua_State *L, int kind, int argument, const char *subject) {
  if (argument && lua_type(L, argument) != LUA_TSTRING) return 0;
  const char *text = argument ? lua_tostring(L, argument) : subject, *reason = refusal(kind, text);
  if (!reason) return 0;
  lua_pushfstring(L, "EACCES: %s (%s)", reason, subject ? subject : text);
  return 1;
}

static int fail(lua_State *L) {
  lua_pushnil(L);
  lua_insert(L, -2);
  lua_pushinteger(L, EACCES);
  return 3;
}

static int raise_text(lua_State *L) { return luaL_error(L, "%s", lua_tostring(L, -1)); }

static int open_file(lua_State *L) {
  const char *mode = luaL_optstring(L, 2, "r");
  int is_both = strchr(mode, '+') != NULL, reads = *mode == 'r' || is_both, writes = *mode != 'r' || is_both;
  if (reads && is_refused(L, CL_READING, 1, NULL)) return fail(L);
  if (writes && is_refused(L, CL_WRITING, 1, NULL)) return fail(L);
  return original[OPEN](L);
}

static int lines(lua_State *L) { return is_refused(L, CL_READING, 1, NULL) ? raise_text(L) : original[LINES](L); }
static int input(lua_State *L) { return is_refused(L, CL_READING, 1, NULL) ? raise_text(L) : original[INPUT](L); }
static int output(lua_State *L) { return is_refused(L, CL_WRITING, 1, NULL) ? raise_text(L) : original[OUTPUT](L); }
static int make_file(lua_State *L) { return is_refused(L, CL_WRITING, 0, "/tmp") ? fail(L) : original[TMPFILE](L); }
static int make_name(lua_State *L) {
  return is_refused(L, CL_WRITING, 0, "/tmp") ? raise_text(L) : original[TMPNAME](L);
}
static int remove_file(lua_State *L) { return is_refused(L, CL_WRITING, 1, NULL) ? fail(L) : original[REMOVE](L); }
static int rename_file(lua_State *L) {
  return is_refused(L, CL_WRITING, 1, NULL) || is_refused(L, CL_WRITING, 2, NULL) ? fail(L) : original[RENAME](L);
}

// Whether the sandbox refuses to run /bin/sh, which runs the commands of os.execute and io.popen.
static int is_shell_refused(lua_State *L) {
  const char *reason = refusal(CL_RUNNING, "sh");
  if (reason) lua_pushfstring(L, "EACCES: %s (%s)", reason, luaL_optstring(L, 1, "sh"));
  return reason != NULL;
}
static int open_program(lua_State *L) {
  luaL_checkstring(L, 1);
  return is_shell_refused(L) ? fail(L) : original[POPEN](L);
}
static int execute(lua_State *L) {
  const char *command = luaL_optstring(L, 1, NULL);
  if (!is_shell_refused(L)) return original[EXECUTE](L);
  if (command) return fail(L);
  lua_pushboolean(L, 0);
  return 1;
}

// Changes the argument `mode` at an index so that it refuses bytecode.
static void accept_text_only(lua_State *L, int mode) {
  if (allows_modules) return;
  const char *given = luaL_optstring(L, mode, "t");
  if (lua_gettop(L) < mode) lua_settop(L, mode);
  lua_pushstring(L, strchr(given, 't') ? "t" : "");
  lua_replace(L, mode);
}

static int load(lua_State *L) {
  accept_text_only(L, 3);
  return original[LOAD](L);
}

static int load_file(lua_State *L) {
  accept_text_only(L, 2);
  if (!is_refused(L, CL_READING, 1, NULL)) return original[LOADFILE](L);
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

static int finish_file(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  return lua_gettop(L) - 1;
}

static int do_file(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL);
  lua_settop(L, 1);
  if (is_refused(L, CL_READING, 1, NULL)) return raise_text(L);
  if (luaL_loadfilex(L, path, allows_modules ? NULL : "t") != LUA_OK) return lua_error(L);
  lua_callk(L, 0, LUA_MULTRET, 0, finish_file);
  return finish_file(L, 0, 0);
}

static int load_library(lua_State *L) {
  lua_pushnil(L);
  lua_pushfstring(L, "EACCES: not allowed by the sandbox: --allow-modules (%s)", luaL_checkstring(L, 1));
  lua_pushliteral(L, "open");
  return 3;
}

// Modules ------------------------------------------------------------------------------------------------------------

// Pushes the path of a module's file; or nil and a message.
static int find_file(lua_State *L, const char *field) {
  luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_pushcfunction(L, original[SEARCHPATH]);
  lua_pushvalue(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, LUA_LOADLIBNAME);
  lua_getfield(L, -1, field);
  lua_replace(L, -3);
  lua_pop(L, 1);
  if (lua_type(L, -1) != LUA_TSTRING) return luaL_error(L, "'package.%s' must be a string", field);
  lua_call(L, 2, 2);
  return lua_isstring(L, 2);
}

// Adds the files that exist but must not be read to a message of package.searchpath.
static void explain_files(lua_State *L) {
  luaL_Buffer buffer;
  luaL_buffinit(L, &buffer);
  const char *message = lua_tostring(L, 3);
  luaL_addstring(&buffer, message);
  for (const char *at = message; (at = strchr(at, '\'')); at++) {
    const char *end = strchr(at + 1, '\'');
    if (!end) break;
    char path[1024];
    if (end - at > 1000) break;
    memcpy(path, at + 1, (size_t)(end - at - 1));
    path[end - at - 1] = 0;
    const char *reason = access(path, F_OK) == 0 ? refusal(CL_READING, path) : NULL;
    if (reason) {
      luaL_addstring(&buffer, "\n\t");
      luaL_addstring(&buffer, reason);
      lua_pushfstring(L, " (%s)", path);
      luaL_addvalue(&buffer);
    }
    at = end;
  }
  luaL_pushresult(&buffer);
}

static int search_lua(lua_State *L) {
  if (!find_file(L, "path")) return explain_files(L), 1;
  const char *path = lua_tostring(L, 2);
  if (luaL_loadfilex(L, path, allows_modules ? NULL : "t") == LUA_OK) return lua_pushvalue(L, 2), 2;
  const char *form = "error loading module '%s' from file '%s':\n\t%s";
  return luaL_error(L, form, lua_tostring(L, 1), path, lua_tostring(L, -1));
}

static int search_c(lua_State *L) {
  if (find_file(L, "cpath")) lua_pushfstring(L, "not allowed by the sandbox: --allow-modules (%s)", lua_tostring(L, 2));
  return 1;
}

static int search_nothing(lua_State *L) { return (void)L, 0; }

// Replacing ----------------------------------------------------------------------------------------------------------

static const struct {
  const char *library, *name;
  lua_CFunction function;
} replacements[REPLACED] = {
    [OPEN] = {"io", "open", open_file},
    [LINES] = {"io", "lines", lines},
    [INPUT] = {"io", "input", input},
    [OUTPUT] = {"io", "output", output},
    [POPEN] = {"io", "popen", open_program},
    [TMPFILE] = {"io", "tmpfile", make_file},
    [REMOVE] = {"os", "remove", remove_file},
    [RENAME] = {"os", "rename", rename_file},
    [TMPNAME] = {"os", "tmpname", make_name},
    [EXECUTE] = {"os", "execute", execute},
    [LOAD] = {"_G", "load", load},
    [LOADFILE] = {"_G", "loadfile", load_file},
    [DOFILE] = {"_G", "dofile", do_file},
    [LOADLIB] = {"package", "loadlib", load_library},
    [SEARCHPATH] = {"package", "searchpath", NULL},
};

// Replaces the function on top of the stack, unless a script has replaced it already, or -W has wrapped it to measure
// its time.
static void replace(lua_State *L, replaced which) {
  lua_CFunction function = lua_tocfunction(L, -1);
  int has_upvalues = function && lua_getupvalue(L, -1, 1) != NULL;
  lua_pop(L, has_upvalues ? 2 : 1);
  if (!function || has_upvalues || function == replacements[which].function) return;
  original[which] = function;
  if (!replacements[which].function || (which == LOADLIB && allows_modules)) return;
  lua_pushcfunction(L, replacements[which].function);
  lua_setfield(L, -2, replacements[which].name);
}

void cl_replace_for_sandbox(lua_State *L) {
  if (!refusal) return;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (int i = 0; i < REPLACED; i++) {
    if (lua_getfield(L, -1, replacements[i].library) == LUA_TTABLE) {
      lua_getfield(L, -1, replacements[i].name);
      replace(L, (replaced)i);
    }
    lua_pop(L, 1);
  }
  if (lua_getfield(L, -1, LUA_LOADLIBNAME) != LUA_TTABLE) return;
  static const lua_CFunction searchers[] = {search_lua, search_c, search_nothing};
  if (original[SEARCHPATH] && lua_getfield(L, -1, "searchers") == LUA_TTABLE)
    for (int i = 0; i < (allows_modules ? 1 : 3); i++) {
      lua_pushcfunction(L, searchers[i]);
      lua_rawseti(L, -2, i + 2);
    }
}

static int p_replace_for_sandbox(lua_State *L) { return cl_replace_for_sandbox(L), 0; }

int cl_enter_sandbox(cl_state *state, const char *(*explains)(int kind, const char *subject), int modules) {
  refusal = explains;
  allows_modules = modules;
  cl_chunk_mode = modules ? NULL : "t";
  return cl_call_protected(state->main, p_replace_for_sandbox, 0, 0);
}

static int p_search_paths(lua_State *L) {
  static const char *const fields[] = {"path", "cpath"};
  char **paths = lua_touserdata(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_LOADLIBNAME) != LUA_TTABLE) return 0;
  for (int i = 0; i < 2; i++) {
    if (lua_getfield(L, 3, fields[i]) == LUA_TSTRING) paths[i] = strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  return 0;
}

void cl_copy_search_paths(cl_state *state, char **path, char **cpath) {
  char *paths[2] = {NULL, NULL};
  lua_pushlightuserdata(state->main, paths);
  if (cl_call_protected(state->main, p_search_paths, 1, 0) != LUA_OK) lua_pop(state->main, 1);
  *path = paths[0], *cpath = paths[1];
}
