// WebSocket frames (RFC 6455), and the digest of their handshake.
#include <string.h>

#include "HTTP.h"

static int break_rule(const char **problem, const char *text) {
  *problem = text;
  return -1;
}

int http_read_frame(http_frame *frame, const char *bytes, size_t length, const char **problem) {
  const unsigned char *p = (const unsigned char *)bytes;
  if (length < 2) return 0;
  frame->is_final = p[0] >> 7;
  frame->is_compressed = p[0] >> 6 & 1;
  frame->code = p[0] & 15;
  frame->is_masked = p[1] >> 7;
  if (p[0] & 0x30) return break_rule(problem, "a reserved bit is set");
  if (frame->code > HTTP_PONG || (frame->code > HTTP_BINARY && frame->code < HTTP_CLOSE))
    return break_rule(problem, "a frame of unknown kind");
  int size = p[1] & 127;
  if (frame->code >= HTTP_CLOSE) {
    if (!frame->is_final) return break_rule(problem, "a control frame in several pieces");
    if (size > 125) return break_rule(problem, "a control frame that is too long");
    if (frame->is_compressed) return break_rule(problem, "a compressed control frame");
  }
  size_t extra = size == 126 ? 2 : size == 127 ? 8 : 0;
  frame->head_length = 2 + extra + (frame->is_masked ? 4 : 0);
  if (length < frame->head_length) return 0;
  frame->length = extra ? 0 : (uint64_t)size;
  for (size_t i = 0; i < extra; i++) frame->length = frame->length << 8 | p[2 + i];
  if (frame->length >> 63) return break_rule(problem, "a frame's length has its highest bit set");
  if ((extra == 2 && frame->length < 126) || (extra == 8 && frame->length < 65536))
    return break_rule(problem, "a frame's length is not in its shortest form");
  if (frame->is_masked) memcpy(frame->mask, p + 2 + extra, 4);
  return 1;
}

size_t http_write_frame(char to[14], int code, int is_compressed, uint64_t length, const unsigned char *mask) {
  unsigned char *p = (unsigned char *)to;
  p[0] = (unsigned char)(0x80 | (is_compressed ? 0x40 : 0) | code);
  size_t extra = length < 126 ? 0 : length < 65536 ? 2 : 8;
  p[1] = (unsigned char)((mask ? 0x80 : 0) | (extra == 0 ? length : extra == 2 ? 126 : 127));
  for (size_t i = 0; i < extra; i++) p[2 + i] = (unsigned char)(length >> 8 * (extra - 1 - i));
  if (mask) memcpy(p + 2 + extra, mask, 4);
  return 2 + extra + (mask ? 4 : 0);
}

void http_mask(char *bytes, size_t length, const unsigned char mask[4], uint64_t position) {
  unsigned char turned[8];
  for (int i = 0; i < 8; i++) turned[i] = mask[(position + (unsigned)i) & 3];
  uint64_t word;
  memcpy(&word, turned, 8);
  size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    uint64_t part;
    memcpy(&part, bytes + i, 8);
    part ^= word;
    memcpy(bytes + i, &part, 8);
  }
  for (; i < length; i++) bytes[i] = (char)(bytes[i] ^ (char)turned[i & 7]);
}

// The state has three numbers of 8 bits: how many bytes of the character follow, and the least and the greatest value
// of the next byte.
int http_check_utf8(uint32_t *state, const char *bytes, size_t length) {
  uint32_t left = *state & 255, low = *state >> 8 & 255, high = *state >> 16 & 255;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (left == 0) {
      if (c < 0x80) {
        // Most text is ASCII: checks eight bytes at a time.
        uint64_t part;
        while (i + 8 < length && (memcpy(&part, bytes + i + 1, 8), (part & 0x8080808080808080u) == 0)) i += 8;
        continue;
      }
      if (c < 0xC2 || c > 0xF4) return 0;
      left = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
      low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
      high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    } else {
      if (c < low || c > high) return 0;
      left--;
      low = 0x80, high = 0xBF;
    }
  }
  *state = left | low << 8 | high << 16;
  return 1;
}

static uint32_t rotate(uint32_t word, int count) { return word << count | word >> (32 - count); }

static void digest_block(uint32_t state[5], const unsigned char *block) {
  uint32_t words[80];
  for (int i = 0; i < 16; i++)
    words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
  for (int i = 16; i < 80; i++) words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int i = 0; i < 80; i++) {
    uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 ? b ^ c ^ d : i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
    static const uint32_t constants[] = {0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6};
    uint32_t next = rotate(a, 5) + f + e + constants[i / 20] + words[i];
    e = d, d = c, c = rotate(b, 30), b = a, a = next;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

void http_sha1(unsigned char digest[20], const char *bytes, size_t length) {
  uint32_t state[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  size_t whole = length / 64 * 64;
  for (size_t i = 0; i < whole; i += 64) digest_block(state, (const unsigned char *)bytes + i);
  unsigned char rest[128] = {0};
  memcpy(rest, bytes + whole, length - whole);
  rest[length - whole] = 0x80;
  size_t count = length - whole < 56 ? 64 : 128;
  for (int i = 0; i < 8; i++) rest[count - 1 - (size_t)i] = (unsigned char)((uint64_t)length * 8 >> 8 * i);
  for (size_t i = 0; i < count; i += 64) digest_block(state, rest + i);
  for (int i = 0; i < 20; i++) digest[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}
