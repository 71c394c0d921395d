// The functions of libcrypto that runloop.crypto calls, as pointers that codecs_use_crypto fills.
#pragma once

#include <openssl/evp.h>

#include "../../encoding/C/codecs.h"

// clang-format off
#define CRYPTO_FUNCTIONS(F) \
  F(EVP_MD_fetch) F(EVP_MD_free) F(EVP_MD_get_size) F(EVP_MD_get_block_size) F(EVP_MD_get_flags) F(EVP_MD_get0_name) \
  F(EVP_MD_do_all_provided) F(EVP_MD_names_do_all) F(EVP_MD_CTX_new) F(EVP_MD_CTX_free) F(EVP_DigestInit_ex2) \
  F(EVP_DigestUpdate) F(EVP_DigestFinal_ex) F(EVP_MD_CTX_reset) F(PKCS5_PBKDF2_HMAC) F(EVP_PKEY_new_raw_private_key) \
  F(EVP_PKEY_new_raw_public_key) F(EVP_PKEY_get_raw_public_key) F(EVP_PKEY_free) F(EVP_DigestSignInit) \
  F(EVP_DigestSign) F(EVP_DigestVerifyInit) F(EVP_DigestVerify) F(ERR_clear_error)
// clang-format on

void ERR_clear_error(void);

struct crypto_functions {
#define POINTER(name) __typeof__(name) *name;
  CRYPTO_FUNCTIONS(POINTER)
#undef POINTER
};
extern struct crypto_functions crypto;

/// Opens libcrypto. Returns 0; if that fails, the number of values for Lua, which it has pushed.
int codecs_use_crypto(lua_State *L);

/// The second and later upvalues of the functions: the table of known digests, and the digest context that all calls of
/// a Lua state share.
enum { CRYPTO_DIGESTS = 2, CRYPTO_WORK = 3, CRYPTO_UPVALUES = 3 };
/// The largest block of a digest: SHAKE128 has 168 bytes.
enum { CRYPTO_BLOCK = 200 };

/// Finds the digest that an argument names; raises an error for an unknown one. Returns what codecs_use_crypto returns.
int codecs_find_digest(lua_State *L, int index, const char *function, const EVP_MD **found);
/// Does the same for HMAC, which some digests do not support.
int codecs_find_keyed(lua_State *L, int index, const char *function, const EVP_MD **found);

/// Begins an HMAC (RFC 2104): `outer` gets the block that codecs_end_hmac needs. Returns 0 without memory.
int codecs_begin_hmac(EVP_MD_CTX *work, const EVP_MD *digest, const char *key, size_t length,
                      unsigned char outer[CRYPTO_BLOCK]);
/// Writes the HMAC. Wipes `outer`.
int codecs_end_hmac(EVP_MD_CTX *work, const EVP_MD *digest, unsigned char outer[CRYPTO_BLOCK], unsigned char *result);

int codecs_make_hasher(lua_State *L);
/// Pushes the metatable of hashers.
void codecs_push_hasher_class(lua_State *L);
/// Adds the functions of Ed25519 to the table on top.
void codecs_add_signatures(lua_State *L);
