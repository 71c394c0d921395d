// Digests in pieces: the objects of crypto.hasher.
#include <string.h>

#include "crypto.h"

typedef struct hasher {
  EVP_MD_CTX *work;
  const EVP_MD *digest;
  int is_keyed, is_over;
  unsigned char outer[CRYPTO_BLOCK], result[EVP_MAX_MD_SIZE];
} hasher;

static const char class_name[] = "runloop.crypto.hasher";

// Returns the object on which a method was called. The method's first upvalue is the module runloop.misuse.
static hasher *self_of(lua_State *L, const char *method) {
  hasher *self = luaL_testudata(L, 1, class_name);
  // Debug functions may call the finalizer, which removes the digest.
  if (self && self->digest) return self;
  codecs_raise(L, "hasher:%s: call it with a colon, on a hasher", method);
  return NULL;  // never
}

// hasher(name, key) -> hasher, or nil, problem, code
int codecs_make_hasher(lua_State *L) {
  const EVP_MD *digest;
  size_t length;
  const char *key = lua_tolstring(L, 2, &length);
  int refused = (key ? codecs_find_keyed : codecs_find_digest)(L, 1, "crypto.hasher", &digest);
  if (refused) return refused;
  hasher *self = lua_newuserdatauv(L, sizeof *self, 0);
  *self = (hasher){.digest = digest, .is_keyed = key != NULL};
  luaL_setmetatable(L, class_name);
  self->work = crypto.EVP_MD_CTX_new();
  if (!self->work || !(key ? codecs_begin_hmac(self->work, digest, key, length, self->outer)
                           : crypto.EVP_DigestInit_ex2(self->work, digest, NULL)))
    return luaL_error(L, "not enough memory");
  return 1;
}

// hasher:update(a, b, …) -> hasher
static int update(lua_State *L) {
  hasher *self = self_of(L, "update");
  if (self->is_over) codecs_raise(L, "hasher:update: the digest has been asked for already (make another hasher)");
  int count = lua_gettop(L);
  for (int i = 2; i <= count; i++) {
    if (lua_type(L, i) == LUA_TSTRING) continue;
    // The argument numbers in errors do not count the object, as in a script's call with a colon.
    lua_remove(L, 1);
    codecs_wrong(L, i - 1, "hasher:update", "a string");
  }
  for (int i = 2; i <= count; i++) {
    size_t length;
    const char *bytes = lua_tolstring(L, i, &length);
    crypto.EVP_DigestUpdate(self->work, bytes, length);
  }
  lua_settop(L, 1);
  return 1;
}

static void release(hasher *self) {
  crypto.EVP_MD_CTX_free(self->work);
  self->work = NULL;
}

// hasher:digest(form) -> digest
static int digest(lua_State *L) {
  hasher *self = self_of(L, "digest");
  lua_remove(L, 1);
  const codecs_form *form = codecs_check_form(L, 1, "hasher:digest");
  if (!self->is_over) {
    self->is_over = 1;
    if (self->is_keyed) codecs_end_hmac(self->work, self->digest, self->outer, self->result);
    else crypto.EVP_DigestFinal_ex(self->work, self->result, NULL);
    release(self);
  }
  codecs_push(L, (char *)self->result, (size_t)crypto.EVP_MD_get_size(self->digest), form);
  return 1;
}

static int describe(lua_State *L) {
  hasher *self = self_of(L, "__tostring");
  lua_pushfstring(L, "hasher (%s%s)", self->is_keyed ? "HMAC of " : "", crypto.EVP_MD_get0_name(self->digest));
  return 1;
}

static int collect(lua_State *L) {
  hasher *self = luaL_checkudata(L, 1, class_name);
  if (self->work) release(self);
  explicit_bzero(self, sizeof *self);
  return 0;
}

void codecs_push_hasher_class(lua_State *L) {
  static const luaL_Reg methods[] = {{"update", update}, {"digest", digest}, {NULL, NULL}};
  luaL_newmetatable(L, class_name);
  lua_pushliteral(L, "hasher");
  lua_setfield(L, -2, "__name");
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, describe);
  lua_setfield(L, -2, "__tostring");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  codecs_push_library(L, methods);
  lua_setfield(L, -2, "__index");
}
