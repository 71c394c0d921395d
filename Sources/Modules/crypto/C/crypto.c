// The functions of runloop.crypto: digests and HMACs of whole texts, random bytes, comparison.
#define _GNU_SOURCE
#include "crypto.h"

#include <errno.h>
#include <errors.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>

// Digests of whole texts ----------------------------------------------------------------------------------------------

static int out_of_memory(lua_State *L) { return luaL_error(L, "not enough memory"); }

#define WORK "runloop.crypto.work"

static int free_work(lua_State *L) {
  EVP_MD_CTX **work = luaL_checkudata(L, 1, WORK);
  if (*work) crypto.EVP_MD_CTX_free(*work);
  *work = NULL;
  return 0;
}

// Returns the digest context of this Lua state, which all calls of hash and hmac share.
static EVP_MD_CTX *work_of(lua_State *L) {
  EVP_MD_CTX **work = lua_touserdata(L, lua_upvalueindex(CRYPTO_WORK));
  if (!*work && !(*work = crypto.EVP_MD_CTX_new())) out_of_memory(L);
  return *work;
}

// hash(name, data, form) -> digest, or nil, problem, code
static int hash(lua_State *L) {
  static const char name[] = "crypto.hash";
  size_t length;
  const char *data = codecs_check_string(L, 2, name, &length);
  const codecs_form *form = codecs_check_form(L, 3, name);
  const EVP_MD *digest;
  int refused = codecs_find_digest(L, 1, name, &digest);
  if (refused) return refused;
  EVP_MD_CTX *work = work_of(L);
  unsigned char result[EVP_MAX_MD_SIZE];
  if (!crypto.EVP_DigestInit_ex2(work, digest, NULL) || !crypto.EVP_DigestUpdate(work, data, length) ||
      !crypto.EVP_DigestFinal_ex(work, result, NULL))
    return out_of_memory(L);
  codecs_push(L, (char *)result, (size_t)crypto.EVP_MD_get_size(digest), form);
  return 1;
}

// hmac(name, key, data, form) -> digest, or nil, problem, code
static int hmac(lua_State *L) {
  static const char name[] = "crypto.hmac";
  size_t length, key_length;
  const char *key = codecs_check_string(L, 2, name, &key_length), *data = codecs_check_string(L, 3, name, &length);
  const codecs_form *form = codecs_check_form(L, 4, name);
  const EVP_MD *digest;
  int refused = codecs_find_keyed(L, 1, name, &digest);
  if (refused) return refused;
  EVP_MD_CTX *work = work_of(L);
  unsigned char result[EVP_MAX_MD_SIZE], outer[CRYPTO_BLOCK];
  if (!codecs_begin_hmac(work, digest, key, key_length, outer) || !crypto.EVP_DigestUpdate(work, data, length) ||
      !codecs_end_hmac(work, digest, outer, result))
    return out_of_memory(L);
  // The shared digest context would keep a state that depends on the key until the next call.
  crypto.EVP_MD_CTX_reset(work);
  codecs_push(L, (char *)result, (size_t)crypto.EVP_MD_get_size(digest), form);
  return 1;
}

// Keys from passwords -------------------------------------------------------------------------------------------------

// Reads a number without fraction, as Lua's own functions do.
static int is_count(lua_State *L, int index, lua_Integer least, lua_Integer most) {
  int is_integer;
  lua_Integer count = lua_tointegerx(L, index, &is_integer);
  return lua_type(L, index) == LUA_TNUMBER && is_integer && count >= least && count <= most;
}

// check_pbkdf2(name, password, salt, rounds, length) -> true, or nil, problem, code
static int check_pbkdf2(lua_State *L) {
  static const char name[] = "crypto.pbkdf2";
  size_t length;
  codecs_check_string(L, 2, name, &length);
  if (length > INT_MAX) return codecs_wrong(L, 2, name, "a string of less than 2 GB");
  codecs_check_string(L, 3, name, &length);
  if (length > INT_MAX) return codecs_wrong(L, 3, name, "a string of less than 2 GB");
  if (!is_count(L, 4, 1, INT_MAX)) return codecs_wrong(L, 4, name, "a number of rounds from 1 to 2147483647");
  if (!is_count(L, 5, 1, 1 << 20)) return codecs_wrong(L, 5, name, "a number of bytes from 1 to 1048576");
  const EVP_MD *digest;
  int refused = codecs_find_keyed(L, 1, name, &digest);
  if (refused) return refused;
  return lua_pushboolean(L, 1), 1;
}

// Others --------------------------------------------------------------------------------------------------------------

// random(n, form, bytes) -> random bytes from the kernel, or `bytes` if they are given
static int make_random(lua_State *L) {
  static const char name[] = "crypto.random";
  if (!is_count(L, 1, 0, 1 << 20)) return codecs_wrong(L, 1, name, "a number of bytes from 0 to 1048576");
  lua_Integer count = lua_tointeger(L, 1);
  const codecs_form *form = codecs_check_form(L, 2, name);
  if (lua_type(L, 3) == LUA_TSTRING) return codecs_push(L, lua_tostring(L, 3), (size_t)count, form), 1;
  luaL_Buffer buffer;
  char *bytes = luaL_buffinitsize(L, &buffer, (size_t)count);
  for (lua_Integer at = 0; at < count;) {
    ssize_t done = getrandom(bytes + at, (size_t)(count - at), 0);
    if (done < 0 && errno != EINTR) return codecs_refuse(L, linux_error_name(errno), "the kernel has no random bytes");
    if (done > 0) at += done;
  }
  codecs_push(L, bytes, (size_t)count, form);
  explicit_bzero(bytes, (size_t)count);
  return 1;
}

// equal(a, b): the time depends on the length of `a` only.
static int equal(lua_State *L) {
  static const char name[] = "crypto.equal";
  size_t length, other_length;
  const char *a = codecs_check_string(L, 1, name, &length), *b = codecs_check_string(L, 2, name, &other_length);
  volatile unsigned char difference = length != other_length;
  if (difference) b = a;
  for (size_t i = 0; i < length; i++) difference = (unsigned char)(difference | (a[i] ^ b[i]));
  lua_pushboolean(L, difference == 0);
  return 1;
}

int crypto_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"hash", hash},
                                       {"hmac", hmac},
                                       {"hasher", codecs_make_hasher},
                                       {"check_pbkdf2", check_pbkdf2},
                                       {"random", make_random},
                                       {"equal", equal},
                                       {NULL, NULL}};
  luaL_checkstack(L, 12, NULL);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_newtable(L);
  EVP_MD_CTX **work = lua_newuserdatauv(L, sizeof *work, 0);
  *work = NULL;
  luaL_newmetatable(L, WORK);
  lua_pushcfunction(L, free_work);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  luaL_setfuncs(L, functions, CRYPTO_UPVALUES);
  codecs_push_hasher_class(L);
  lua_setfield(L, -2, "class");
  codecs_add_signatures(L);
  return 1;
}
