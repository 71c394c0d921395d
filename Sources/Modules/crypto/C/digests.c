// The functions of libcrypto, digests by their names, and HMAC.
#define _GNU_SOURCE
#include "crypto.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct crypto_functions crypto;

static const char *find_functions(void *library) {
#define FIND(name) \
  if (!(*(void **)&crypto.name = dlsym(library, #name))) return "has no " #name ": it is too old";
  CRYPTO_FUNCTIONS(FIND)
#undef FIND
  return NULL;
}

static struct linux_library library = {"libcrypto.so.3", "libssl3", find_functions, 0};

int codecs_use_crypto(lua_State *L) { return codecs_use(L, &library); }

// Digests by name -----------------------------------------------------------------------------------------------------

// Digests are fetched once for the process: fetching takes longer than hashing a short text.
static const EVP_MD *fetch(const char *name) {
  static struct {
    const EVP_MD *all[128];
    size_t count;
  } known;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  EVP_MD *digest = crypto.EVP_MD_fetch(NULL, name, NULL);
  crypto.ERR_clear_error();
  if (!digest) return NULL;
  const EVP_MD *found = crypto.EVP_MD_get_size(digest) > 0 ? digest : NULL;
  pthread_mutex_lock(&lock);
  int is_new = found != NULL;
  for (size_t i = 0; i < known.count && is_new; i++)
    if (strcmp(crypto.EVP_MD_get0_name(known.all[i]), crypto.EVP_MD_get0_name(digest)) == 0)
      found = known.all[i], is_new = 0;
  if (is_new && known.count < sizeof known.all / sizeof *known.all) known.all[known.count++] = found;
  pthread_mutex_unlock(&lock);
  if (!is_new) crypto.EVP_MD_free(digest);
  return found;
}

// Adds a name in lower case to the table on top, unless it is an object identifier.
static void add_name(const char *name, void *state) {
  lua_State *L = state;
  char lower[64];
  size_t length = 0;
  for (; name[length] && length + 1 < sizeof lower; length++)
    lower[length] = (char)(name[length] >= 'A' && name[length] <= 'Z' ? name[length] | 32 : name[length]);
  lower[length] = 0;
  if (strchr(lower, '.') || strcmp(lower, "null") == 0) return;
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, lower);
}

static void add_names(EVP_MD *digest, void *state) { crypto.EVP_MD_names_do_all(digest, add_name, state); }

int codecs_find_digest(lua_State *L, int index, const char *function, const EVP_MD **found) {
  size_t length;
  const char *name = codecs_check_string(L, index, function, &length);
  int refused = codecs_use_crypto(L);
  if (refused) return refused;
  lua_pushvalue(L, index);
  if (lua_rawget(L, lua_upvalueindex(CRYPTO_DIGESTS)) == LUA_TLIGHTUSERDATA) {
    *found = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return 0;
  }
  lua_pop(L, 1);
  *found = strlen(name) == length && length < 64 ? fetch(name) : NULL;
  if (!*found) {
    luaL_checkstack(L, 8, NULL);
    lua_newtable(L);
    crypto.EVP_MD_do_all_provided(NULL, add_names, L);
    return codecs_unknown(L, index, function, "digest");
  }
  lua_pushvalue(L, index);
  lua_pushlightuserdata(L, (void *)*found);
  lua_rawset(L, lua_upvalueindex(CRYPTO_DIGESTS));
  return 0;
}

int codecs_find_keyed(lua_State *L, int index, const char *function, const EVP_MD **found) {
  int refused = codecs_find_digest(L, index, function, found);
  if (refused) return refused;
  int block = crypto.EVP_MD_get_block_size(*found);
  if (crypto.EVP_MD_get_flags(*found) & EVP_MD_FLAG_XOF || block <= 1 || block > CRYPTO_BLOCK)
    return codecs_wrong(L, index, function, "a digest with which HMAC is defined");
  return 0;
}

// HMAC ----------------------------------------------------------------------------------------------------------------

int codecs_begin_hmac(EVP_MD_CTX *work, const EVP_MD *digest, const char *key, size_t length,
                      unsigned char outer[CRYPTO_BLOCK]) {
  size_t block = (size_t)crypto.EVP_MD_get_block_size(digest);
  memset(outer, 0, CRYPTO_BLOCK);
  if (length <= block) {
    memcpy(outer, key, length);
  } else if (!crypto.EVP_DigestInit_ex2(work, digest, NULL) || !crypto.EVP_DigestUpdate(work, key, length) ||
             !crypto.EVP_DigestFinal_ex(work, outer, NULL)) {
    return 0;
  }
  unsigned char inner[CRYPTO_BLOCK];
  for (size_t i = 0; i < block; i++) inner[i] = outer[i] ^ 0x36, outer[i] ^= 0x5c;
  int is_good = crypto.EVP_DigestInit_ex2(work, digest, NULL) && crypto.EVP_DigestUpdate(work, inner, block);
  explicit_bzero(inner, sizeof inner);
  return is_good;
}

int codecs_end_hmac(EVP_MD_CTX *work, const EVP_MD *digest, unsigned char outer[CRYPTO_BLOCK], unsigned char *result) {
  size_t block = (size_t)crypto.EVP_MD_get_block_size(digest), size = (size_t)crypto.EVP_MD_get_size(digest);
  int is_good = crypto.EVP_DigestFinal_ex(work, result, NULL) && crypto.EVP_DigestInit_ex2(work, digest, NULL) &&
                crypto.EVP_DigestUpdate(work, outer, block) && crypto.EVP_DigestUpdate(work, result, size) &&
                crypto.EVP_DigestFinal_ex(work, result, NULL);
  explicit_bzero(outer, CRYPTO_BLOCK);
  return is_good;
}

int crypto_derive(const char *name, const char *password, int password_length, const char *salt, int salt_length,
                  int rounds, char *key, int length) {
  const EVP_MD *digest = crypto.EVP_MD_fetch ? fetch(name) : NULL;
  int is_good = digest && crypto.PKCS5_PBKDF2_HMAC(password, password_length, (const unsigned char *)salt, salt_length,
                                                   rounds, digest, length, (unsigned char *)key);
  if (crypto.ERR_clear_error) crypto.ERR_clear_error();
  return is_good;
}
