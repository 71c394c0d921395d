// Parses URLs as WHATWG's standard does, in one pass over the text: https://url.spec.whatwg.org/#url-parsing.
#include <stdio.h>
#include <string.h>

#include "url.h"

// Begins a part at the end of the text; `end` completes the part.
static url_part begin(url *to) { return (url_part){to->text.length, 0}; }
static void end(url *to, url_part *part) { part->length = to->text.length - part->at; }

static void copy(url *to, url_part *part, const url *base, url_part from) {
  *part = begin(to);
  url_append(to, base->text.bytes + from.at, from.length);
  end(to, part);
}

static int is_slash(const url *to, const char *p, const char *last) {
  return p < last && (*p == '/' || (*p == '\\' && to->is_special));
}

// Paths ---------------------------------------------------------------------------------------------------------------

static int is_drive(const char *p) { return url_is_letter(p[0]) && (p[1] == ':' || p[1] == '|'); }

static int begins_with_drive(const char *p, const char *last) {
  return last - p >= 2 && is_drive(p) && (last - p == 2 || (p[2] && strchr("/\\?#", p[2])));
}

// Removes the last segment of the path. The drive letter of a file URL stays.
static void shorten(url *to) {
  const char *path = to->text.bytes + to->path.at;
  size_t length = to->text.length - to->path.at;
  if (to->is_file && length == 3 && url_is_letter(path[1]) && path[2] == ':') return;
  while (length > 0 && path[--length] != '/')
    ;
  to->text.length = to->path.at + length;
}

// Returns 1 for ".", 2 for "..", 0 for other segments. A dot may be percent-encoded.
static int dots_of(const char *p, const char *last) {
  int count = 0;
  for (; p < last; count++) {
    if (*p == '.') p++;
    else if (last - p >= 3 && p[0] == '%' && p[1] == '2' && (p[2] | 32) == 'e') p += 3;
    else return 0;
  }
  return count <= 2 ? count : 0;
}

// Appends the segments from `p` on. Returns the end of the path.
static const char *write_path(url *to, const char *p, const char *last) {
  for (;; p++) {
    const char *segment = p;
    while (p < last && *p != '?' && *p != '#' && !is_slash(to, p, last)) p++;
    int goes_on = is_slash(to, p, last);
    int dots = p > segment && (*segment == '.' || *segment == '%') ? dots_of(segment, p) : 0;
    if (dots == 2) shorten(to);
    if (!dots) {
      int is_first = to->text.length == to->path.at;
      url_append(to, "/", 1);
      if (is_first && to->is_file && p - segment == 2 && is_drive(segment)) {
        url_append(to, (char[]){*segment, ':'}, 2);
      } else {
        url_encode(to, segment, (size_t)(p - segment), URL_PATH);
      }
    } else if (!goes_on) {
      url_append(to, "/", 1);
    }
    if (!goes_on) return p;
  }
}

static const char *write_first_path(url *to, const char *p, const char *last) {
  to->path = begin(to);
  // URLs of other schemes may have an empty path.
  if (!to->is_special && (p == last || *p == '?' || *p == '#')) return p;
  if (is_slash(to, p, last)) p++;
  return write_path(to, p, last);
}

static int write_rest(url *to, const char *p, const char *last) {
  if (p < last && *p == '?') {
    const char *stop = memchr(p, '#', (size_t)(last - p));
    if (!stop) stop = last;
    url_append(to, "?", 1);
    to->query = begin(to);
    url_encode(to, p + 1, (size_t)(stop - p - 1), to->is_special ? URL_SPECIAL_QUERY : URL_QUERY);
    end(to, &to->query);
    to->has_query = 1;
    p = stop;
  }
  if (p < last) {
    url_append(to, "#", 1);
    to->fragment = begin(to);
    url_encode(to, p + 1, (size_t)(last - p - 1), URL_FRAGMENT);
    end(to, &to->fragment);
    to->has_fragment = 1;
  }
  return 1;
}

static int finish(url *to, const char *p, const char *last) {
  end(to, &to->path);
  if (!to->has_host && to->path.length > 1 && memcmp(to->text.bytes + to->path.at, "//", 2) == 0) {
    // Without a host, the two slashes at the start of the path would be read as the start of a host.
    url_append(to, "/.", 2);
    char *path = to->text.bytes + to->path.at;
    memmove(path + 2, path, to->path.length);
    memcpy(path, "/.", 2);
    to->path.at += 2;
  }
  return write_rest(to, p, last);
}

static int finish_with_query(url *to, const url *base, const char *p, const char *last) {
  if (!base->has_query || (p < last && *p == '?')) return finish(to, p, last);
  finish(to, p, p);
  url_append(to, "?", 1);
  copy(to, &to->query, base, base->query);
  to->has_query = 1;
  return write_rest(to, p, last);
}

// Authorities ---------------------------------------------------------------------------------------------------------

static void write_user(url *to, const char *p, const char *last) {
  const char *colon = memchr(p, ':', (size_t)(last - p)), *stop = colon ? colon : last;
  to->user = begin(to);
  url_encode(to, p, (size_t)(stop - p), URL_USER);
  end(to, &to->user);
  if (colon && colon + 1 < last) {
    url_append(to, ":", 1);
    to->password = begin(to);
    url_encode(to, colon + 1, (size_t)(last - colon - 1), URL_USER);
    end(to, &to->password);
  }
  if (to->user.length || to->password.length) url_append(to, "@", 1);
}

static int write_port(url *to, const char *p, const char *last) {
  int port = p == last ? -1 : 0;
  for (; p < last; p++) {
    if (*p < '0' || *p > '9') return url_fail(to, "the port is not a number");
    if ((port = port * 10 + *p - '0') > 65535) return url_fail(to, "the port is above 65535");
  }
  if (port < 0 || port == to->default_port) return 1;
  char shown[8];
  int count = snprintf(shown, sizeof shown, ":%d", port);
  url_append(to, shown, (size_t)count);
  to->port = port;
  return 1;
}

// Parses the part after "//".
static int parse_authority(url *to, const char *p, const char *last) {
  const char *stop = p, *sign = NULL, *colon = NULL;
  for (; stop < last && *stop != '?' && *stop != '#' && *stop != '/' && !is_slash(to, stop, last); stop++)
    if (*stop == '@') sign = stop;
  url_append(to, "//", 2);
  to->has_host = 1;
  if (sign) {
    write_user(to, p, sign);
    p = sign + 1;
    if (p == stop) return url_fail(to, "there is no host after the '@'");
  }
  int is_inside = 0;
  for (const char *q = p; q < stop && !colon; q++) {
    if (*q == '[') is_inside = 1;
    else if (*q == ']') is_inside = 0;
    else if (*q == ':' && !is_inside) colon = q;
  }
  const char *name_end = colon ? colon : stop;
  if (p == name_end && (colon || to->is_special)) return url_fail(to, "there is no host");
  to->host = begin(to);
  if (p < name_end && !url_write_host(to, p, (size_t)(name_end - p))) return 0;
  end(to, &to->host);
  if (colon && !write_port(to, colon + 1, stop)) return 0;
  return finish(to, write_first_path(to, stop, last), last);
}

static int parse_special_authority(url *to, const char *p, const char *last) {
  while (is_slash(to, p, last)) p++;
  return parse_authority(to, p, last);
}

static void copy_authority(url *to, const url *base) {
  if (!base->has_host) return;
  url_append(to, "//", 2);
  to->has_host = 1;
  copy(to, &to->user, base, base->user);
  if (base->password.length) url_append(to, ":", 1), copy(to, &to->password, base, base->password);
  if (base->user.length || base->password.length) url_append(to, "@", 1);
  copy(to, &to->host, base, base->host);
  to->port = base->port;
  if (to->port < 0) return;
  char shown[8];
  int count = snprintf(shown, sizeof shown, ":%d", to->port);
  url_append(to, shown, (size_t)count);
}

// References ----------------------------------------------------------------------------------------------------------

// Resolves a relative path, without a slash in front, against the path of `base`. The authority has been written.
static int resolve(url *to, const url *base, const char *p, const char *last, int keeps_path) {
  copy(to, &to->path, base, keeps_path ? base->path : (url_part){0});
  if (p == last || *p == '#' || *p == '?') return finish_with_query(to, base, p, last);
  shorten(to);
  return finish(to, write_path(to, p, last), last);
}

static int parse_relative(url *to, const url *base, const char *p, const char *last) {
  if (is_slash(to, p, last)) {
    if (to->is_special && is_slash(to, p + 1, last)) return parse_special_authority(to, p, last);
    if (p + 1 < last && p[1] == '/') return parse_authority(to, p + 2, last);
    copy_authority(to, base);
    to->path = begin(to);
    return finish(to, write_path(to, p + 1, last), last);
  }
  copy_authority(to, base);
  return resolve(to, base, p, last, 1);
}

// Parses "file:" and the rest of the URL. `base` is a file, or NULL.
static int parse_file(url *to, const url *base, const char *p, const char *last) {
  url_append(to, "//", 2);
  to->has_host = 1;
  to->host = begin(to);
  if (is_slash(to, p, last) && is_slash(to, p + 1, last)) {
    p += 2;
    const char *stop = p;
    while (stop < last && *stop != '?' && *stop != '#' && !is_slash(to, stop, last)) stop++;
    if (stop - p == 2 && is_drive(p)) {
      to->path = begin(to);
      return finish(to, write_path(to, p, last), last);
    }
    if (stop > p && !url_write_host(to, p, (size_t)(stop - p))) return 0;
    end(to, &to->host);
    if (to->host.length == 9 && memcmp(to->text.bytes + to->host.at, "localhost", 9) == 0) {
      to->text.length = to->host.at;
      to->host.length = 0;
    }
    return finish(to, write_first_path(to, stop, last), last);
  }
  if (base) copy(to, &to->host, base, base->host);
  to->path = begin(to);
  if (!is_slash(to, p, last)) {
    if (base) return resolve(to, base, p, last, p == last || *p == '?' || *p == '#' || !begins_with_drive(p, last));
    return finish(to, write_path(to, p, last), last);
  }
  const char *path = base ? base->text.bytes + base->path.at : "";
  int has_drive = base && base->path.length >= 3 && url_is_letter(path[1]) && path[2] == ':' &&
                  (base->path.length == 3 || path[3] == '/');
  if (has_drive && !begins_with_drive(p + 1, last)) url_append(to, path, 3);
  return finish(to, write_path(to, p + 1, last), last);
}

static int parse_opaque(url *to, const char *p, const char *last) {
  const char *stop = p;
  while (stop < last && *stop != '?' && *stop != '#') stop++;
  to->is_opaque = 1;
  to->path = begin(to);
  url_encode(to, p, (size_t)(stop - p), URL_CONTROL);
  end(to, &to->path);
  return write_rest(to, stop, last);
}

// Whole URLs ----------------------------------------------------------------------------------------------------------

static void note_scheme(url *to) {
  static const struct {
    const char *name;
    int port;
  } special[] = {{"https", 443}, {"http", 80}, {"file", -1}, {"ws", 80}, {"wss", 443}, {"ftp", 21}};
  to->scheme.length = to->text.length;
  for (size_t i = 0; i < sizeof special / sizeof *special && !to->is_special; i++) {
    to->is_special =
        to->scheme.length == strlen(special[i].name) && memcmp(to->text.bytes, special[i].name, to->scheme.length) == 0;
    if (to->is_special) to->default_port = special[i].port, to->is_file = special[i].port < 0;
  }
  url_append(to, ":", 1);
}

// Returns the text without blanks at its ends, and without tabs and line ends.
static const char *clean(url *to, const char *text, const char **last) {
  while (text < *last && (unsigned char)*text <= ' ') text++;
  while (text < *last && (unsigned char)(*last)[-1] <= ' ') --*last;
  const char *p = text;
  while (p < *last && *p != '\t' && *p != '\n' && *p != '\r') p++;
  if (p == *last) return text;
  linux_bytes *input = &to->input;
  input->length = 0;
  if (!linux_reserve(input, (size_t)(*last - text))) luaL_error(to->L, "not enough memory");
  for (p = text; p < *last; p++)
    if (*p != '\t' && *p != '\n' && *p != '\r') input->bytes[input->length++] = *p;
  *last = input->bytes + input->length;
  return input->bytes;
}

static int has_scheme(const char *p, const char *last) {
  if (p == last || !url_is_letter(*p)) return 0;
  while (p < last && (url_is_letter(*p) || (*p >= '0' && *p <= '9') || *p == '+' || *p == '-' || *p == '.')) p++;
  return p < last && *p == ':';
}

int url_parse(url *to, const char *text, size_t length, const url *base) {
  lua_State *L = to->L;
  linux_bytes kept[] = {to->text, to->scratch, to->input};
  *to = (url){
      .text = kept[0], .scratch = kept[1], .input = kept[2], .port = -1, .default_port = -1, .code = "EINVAL", .L = L};
  to->text.length = 0;
  const char *last = text + length, *p = clean(to, text, &last);
  if (!has_scheme(p, last)) {
    if (!base) return url_fail(to, "there is no scheme, such as https:");
    if (base->is_opaque && (p == last || *p != '#'))
      return url_fail(to, "the base has no path to which it could be relative");
    url_append(to, base->text.bytes, base->scheme.length);
    note_scheme(to);
    if (to->is_file) return parse_file(to, base, p, last);
    if (!base->is_opaque) return parse_relative(to, base, p, last);
    copy(to, &to->path, base, base->path);
    to->is_opaque = 1;
    if (base->has_query) url_append(to, "?", 1), copy(to, &to->query, base, base->query), to->has_query = 1;
    return write_rest(to, p, last);
  }
  for (; *p != ':'; p++) url_append(to, (char[]){url_is_letter(*p) ? *p | 32 : *p}, 1);
  note_scheme(to);
  p++;
  int is_same = base && base->scheme.length == to->scheme.length &&
                memcmp(base->text.bytes, to->text.bytes, to->scheme.length) == 0;
  if (to->is_file) return parse_file(to, is_same ? base : NULL, p, last);
  int has_slashes = last - p >= 2 && p[0] == '/' && p[1] == '/';
  if (to->is_special) {
    if (is_same && !has_slashes) return parse_relative(to, base, p, last);
    return parse_special_authority(to, p, last);
  }
  if (has_slashes) return parse_authority(to, p + 2, last);
  if (p == last || *p != '/') return parse_opaque(to, p, last);
  to->path = begin(to);
  return finish(to, write_path(to, p + 1, last), last);
}
