// The statements of a text. Scripts and batches are transactions, so that statements which end a transaction must be
// found before anything is sent: a commit cannot be undone. The words are those of PostgreSQL's scanner.
#include <lauxlib.h>
#include <string.h>

#include "private.h"

enum { KEPT = 4, LONGEST = 15 };  // words of a statement, and bytes of a word that may decide something

static const char *const CONTROL[] = {"begin", "start",     "commit",  "end", "rollback",
                                      "abort", "savepoint", "release", NULL};

typedef struct {
  const char *at, *end;
  int all_escapes;         // each quoted text may have escapes
  int is_decided;          // the following words do not change what the statement is
  char word[LONGEST + 1];  // the last word, in lower case; longer ones are cut
} reader;

static int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int begins_word(char c) { return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || (unsigned char)c >= 0x80; }
static int is_in_word(char c) { return begins_word(c) || is_digit(c) || c == '$'; }

static void skip_behind(reader *r, char mark) {
  const char *found = memchr(r->at, mark, (size_t)(r->end - r->at));
  r->at = found ? found + 1 : r->end;
}

// Skips a comment, which may have others inside.
static void skip_comment(reader *r) {
  int depth = 0;
  do {
    if (r->end - r->at < 2) {
      r->at = r->end;
      return;
    }
    int opens = r->at[0] == '/' && r->at[1] == '*', closes = r->at[0] == '*' && r->at[1] == '/';
    r->at += opens || closes ? 2 : 1;
    depth += opens - closes;
  } while (depth > 0);
}

// Skips a quoted text after its first quote. `has_escapes`: a backslash escapes the next byte.
static void skip_quoted(reader *r, int has_escapes) {
  if (!has_escapes) {
    skip_behind(r, '\'');
    return;
  }
  while (r->at < r->end) {
    char c = *r->at++;
    if (c == '\\' && r->at < r->end) r->at++;
    if (c != '\'') continue;
    // A doubled quote, or another quoted text on a later line, continues the text.
    const char *next = r->at;
    int has_line = next < r->end && *next == '\'';
    for (; next < r->end && is_blank(*next); next++) has_line |= *next == '\n' || *next == '\r';
    if (!has_line || next == r->end || *next != '\'') return;
    r->at = next + 1;
  }
}

// Skips a dollar-quoted text, or a single dollar.
static void skip_dollars(reader *r) {
  const char *tag = r->at++;
  if (r->at < r->end && begins_word(*r->at))
    while (r->at < r->end && is_in_word(*r->at) && *r->at != '$') r->at++;
  if (r->at == r->end || *r->at != '$') {
    r->at = tag + 1;
    return;
  }
  size_t length = (size_t)(++r->at - tag);
  for (; r->end - r->at >= (ptrdiff_t)length; r->at++) {
    if (*r->at != '$' || memcmp(r->at, tag, length) != 0) continue;
    r->at += length;
    return;
  }
  r->at = r->end;
}

static void read_word(reader *r) {
  size_t length = 0;
  for (; r->at < r->end && is_in_word(*r->at); r->at++)
    if (length < LONGEST) r->word[length++] = *r->at >= 'A' && *r->at <= 'Z' ? *r->at | 32 : *r->at;
  r->word[length] = 0;
}

// Returns the next punctuation mark; 'w' for a word; 0 for a part that has no meaning here, such as a quoted text.
static char next_part(reader *r) {
  char c = *r->at, second = r->end - r->at > 1 ? r->at[1] : 0;
  if (begins_word(c)) {
    const char *start = r->at;
    if (!r->is_decided) read_word(r);
    else
      while (r->at < r->end && is_in_word(*r->at)) r->at++;
    if ((c | 32) != 'e' || r->at - start > 1 || r->at == r->end || *r->at != '\'') return r->is_decided ? 0 : 'w';
    r->at++;
    return skip_quoted(r, 1), 0;
  }
  if (c == '$') return skip_dollars(r), 0;
  if (c == '/' && second == '*') return skip_comment(r), 0;
  r->at++;
  if (c == '\'') return skip_quoted(r, r->all_escapes), 0;
  if (c == '"') return skip_behind(r, '"'), c;
  if (c == '-' && second == '-') {
    while (r->at < r->end && *r->at != '\n' && *r->at != '\r') r->at++;
    return 0;
  }
  if (!is_digit(c)) return is_blank(c) ? 0 : c;
  while (r->at < r->end && (is_digit(*r->at) || *r->at == '.' || (begins_word(*r->at) && (unsigned char)*r->at < 0x80)))
    r->at++;
  return c;
}

typedef struct {
  char words[KEPT][LONGEST + 1];
  int count, is_of_client;  // a copy from stdin or to stdout
} statement;

static int is(const statement *it, int index, const char *word) {
  return index < it->count && strcmp(it->words[index], word) == 0;
}

// If a statement must not be a part of a transaction, returns the word that names it in messages; else NULL.
static const char *refused_word(const statement *it) {
  for (int i = 0; CONTROL[i]; i++)
    if (is(it, 0, CONTROL[i])) return CONTROL[i];
  if (is(it, 0, "prepare") && is(it, 1, "transaction")) return "prepare transaction";
  return is(it, 0, "copy") && it->is_of_client ? "copy" : NULL;
}

// Whether the statement defines a function or procedure, whose body may be a list of statements.
static int is_routine(const statement *it) {
  int kind = is(it, 1, "or") ? 3 : 1;
  return is(it, 0, "create") && (is(it, kind, "function") || is(it, kind, "procedure"));
}

static int is_decided(const statement *it) {
  if (is(it, 0, "create")) return it->count == KEPT && !is_routine(it);
  return it->count > 1 && !is(it, 0, "copy");
}

static void add_word(statement *it, const char *word) {
  if (strcmp(word, "stdin") == 0 || strcmp(word, "stdout") == 0) it->is_of_client = 1;
  if (it->count < KEPT) strcpy(it->words[it->count++], word);
}

static const char *find_refused(reader *r) {
  statement it = {0};
  int parentheses = 0, blocks = 0, is_after_begin = 0;
  while (r->at < r->end) {
    char part = next_part(r);
    if (!part) continue;
    if (part == ';' && parentheses == 0 && blocks == 0) {
      const char *found = refused_word(&it);
      if (found) return found;
      it = (statement){0};
    } else if (part != 'w') {
      char mark[] = {part, 0};
      if (it.count < KEPT) add_word(&it, mark);
      parentheses += (part == '(') - (part == ')');
    } else {
      add_word(&it, r->word);
      if ((is_after_begin && strcmp(r->word, "atomic") == 0 && is_routine(&it)) ||
          (blocks > 0 && strcmp(r->word, "case") == 0))
        blocks++;
      else if (blocks > 0 && strcmp(r->word, "end") == 0) blocks--;
    }
    is_after_begin = part == 'w' && strcmp(r->word, "begin") == 0;
    r->is_decided = is_decided(&it);
  }
  return refused_word(&it);
}

int cpostgres_refused(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  reader r = {.at = text, .end = text + length, .all_escapes = lua_toboolean(L, 2)};
  lua_pushstring(L, find_refused(&r));
  return 1;
}
