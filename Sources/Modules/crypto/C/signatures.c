// Signatures with Ed25519 (RFC 8032).
#include "crypto.h"

enum { KEY = 32, SIGNATURE = 64 };

// Returns an argument of 32 bytes; raises an error for others.
static const unsigned char *check_key(lua_State *L, const char *function) {
  size_t length;
  const char *key = codecs_check_string(L, 1, function, &length);
  if (length != KEY) {
    codecs_raise(L, "%s: argument #1 must have 32 bytes, got %I", function, (lua_Integer)length);
  }
  return (const unsigned char *)key;
}

static int fail(lua_State *L, EVP_PKEY *key, EVP_MD_CTX *work) {
  crypto.ERR_clear_error();
  if (work) crypto.EVP_MD_CTX_free(work);
  if (key) crypto.EVP_PKEY_free(key);
  return luaL_error(L, "not enough memory");
}

// ed25519_public(seed) -> public key, or nil, problem, code
static int public_of(lua_State *L) {
  const unsigned char *seed = check_key(L, "crypto.ed25519_public");
  int refused = codecs_use_crypto(L);
  if (refused) return refused;
  unsigned char public[KEY];
  size_t length = KEY;
  EVP_PKEY *key = crypto.EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, KEY);
  if (!key || !crypto.EVP_PKEY_get_raw_public_key(key, public, &length)) return fail(L, key, NULL);
  crypto.EVP_PKEY_free(key);
  lua_pushlstring(L, (char *)public, length);
  return 1;
}

// ed25519_sign(seed, data) -> signature, or nil, problem, code
static int sign(lua_State *L) {
  static const char name[] = "crypto.ed25519_sign";
  const unsigned char *seed = check_key(L, name);
  size_t length, size = SIGNATURE;
  const char *data = codecs_check_string(L, 2, name, &length);
  int refused = codecs_use_crypto(L);
  if (refused) return refused;
  unsigned char signature[SIGNATURE];
  EVP_PKEY *key = crypto.EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, KEY);
  EVP_MD_CTX *work = crypto.EVP_MD_CTX_new();
  if (!key || !work || crypto.EVP_DigestSignInit(work, NULL, NULL, NULL, key) != 1 ||
      crypto.EVP_DigestSign(work, signature, &size, (const unsigned char *)data, length) != 1)
    return fail(L, key, work);
  crypto.EVP_MD_CTX_free(work);
  crypto.EVP_PKEY_free(key);
  lua_pushlstring(L, (char *)signature, size);
  return 1;
}

// ed25519_verify(public, data, signature) -> boolean, or nil, problem, code
static int verify(lua_State *L) {
  static const char name[] = "crypto.ed25519_verify";
  const unsigned char *public = check_key(L, name);
  size_t length, size;
  const char *data = codecs_check_string(L, 2, name, &length), *signature = codecs_check_string(L, 3, name, &size);
  int refused = codecs_use_crypto(L);
  if (refused) return refused;
  EVP_PKEY *key = crypto.EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public, KEY);
  EVP_MD_CTX *work = crypto.EVP_MD_CTX_new();
  if (!work) return fail(L, key, work);
  int is_good =
      key && size == SIGNATURE && crypto.EVP_DigestVerifyInit(work, NULL, NULL, NULL, key) == 1 &&
      crypto.EVP_DigestVerify(work, (const unsigned char *)signature, size, (const unsigned char *)data, length) == 1;
  crypto.ERR_clear_error();
  crypto.EVP_MD_CTX_free(work);
  crypto.EVP_PKEY_free(key);
  lua_pushboolean(L, is_good);
  return 1;
}

void codecs_add_signatures(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"ed25519_public", public_of}, {"ed25519_sign", sign}, {"ed25519_verify", verify}, {NULL, NULL}};
  lua_pushvalue(L, 1);
  luaL_setfuncs(L, functions, 1);
}
