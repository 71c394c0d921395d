// Opens files below a directory. Neither ".." nor a link can lead out of the directory.
#define _GNU_SOURCE
#include <descriptors.h>
#include <errors.h>
#include <fcntl.h>
#include <files.h>
#include <lauxlib.h>
#include <linux/openat2.h>
#include <lualib.h>
#include <standard.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "private.h"

static int open_beneath(int root, const char *path) {
  struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  for (int i = 0; i < 8; i++) {
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    // EAGAIN: a directory of the path was renamed meanwhile.
    if (fd >= 0 || errno != EAGAIN) return fd;
  }
  return -1;
}

// open_file(directory, path) -> descriptor, size, seconds, nanoseconds, whether the size may be wrong; or nil, the name
// of an error: "ENOENT", "EISDIR", … The path is relative; without a path, `directory` is the file itself.
int lua_http_open_file(lua_State *L) {
  const char *directory = luaL_checkstring(L, 1), *path = luaL_optstring(L, 2, NULL);
  int fd;
  if (path) {
    int root = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return lua_pushnil(L), lua_pushstring(L, strerrorname_np(errno)), 2;
    fd = open_beneath(root, *path ? path : ".");
    linux_give_up(root);
  } else {
    fd = open(directory, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  }
  struct stat status;
  if (fd < 0 || fstat(fd, &status) < 0) {
    int number = errno;
    if (fd >= 0) close(fd);
    return lua_pushnil(L), lua_pushstring(L, strerrorname_np(number)), 2;
  }
  if (!S_ISREG(status.st_mode)) {
    close(fd);
    return lua_pushnil(L), lua_pushstring(L, S_ISDIR(status.st_mode) ? "EISDIR" : "EACCES"), 2;
  }
  lua_pushinteger(L, fd);
  lua_pushinteger(L, status.st_size);
  lua_pushinteger(L, status.st_mtim.tv_sec);
  lua_pushinteger(L, status.st_mtim.tv_nsec);
  // Files that the kernel generates report size 0 in /proc, and the size of a page in /sys.
  lua_pushboolean(L, status.st_blocks == 0 && status.st_size <= 4096);
  return 5;
}

// read_file(descriptor, offset, count) -> bytes, "" at the end; or nil, error
int lua_http_read_file(lua_State *L) {
  int fd = (int)luaL_checkinteger(L, 1);
  size_t count = (size_t)luaL_checkinteger(L, 3);
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, count);
  ssize_t got = pread(fd, to, count, luaL_checkinteger(L, 2));
  if (got < 0) return lua_pushnil(L), lua_pushstring(L, strerrorname_np(errno)), 2;
  luaL_pushresultsize(&buffer, (size_t)got);
  return 1;
}

int lua_http_seek_file(lua_State *L) {
  lua_pushboolean(L, lseek((int)luaL_checkinteger(L, 1), luaL_checkinteger(L, 2), SEEK_SET) >= 0);
  return 1;
}

int lua_http_close_file(lua_State *L) {
  close((int)luaL_checkinteger(L, 1));
  return 0;
}

static int close_log(lua_State *L) {
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  return luaL_fileresult(L, fclose(stream->f) == 0, NULL);
}

// open_log(path) -> a file of the io library for appending; or nil, message, code
int lua_http_open_log(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_Stream *stream = lua_newuserdatauv(L, sizeof *stream, 0);
  stream->closef = NULL;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  linux_place place;
  int fd = linux_open_log(path, 0640, 0, &place);
  linux_leave_place(&place);
  stream->f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!stream->f) {
    int number = errno;
    linux_give_up(fd);
    lua_pushnil(L);
    lua_pushstring(L, number == ENXIO ? "no program reads the pipe" : linux_error_text(number));
    lua_pushstring(L, linux_error_name(number));
    return 3;
  }
  stream->closef = close_log;
  return 1;
}

// lose_log(file, error): notes that a line for the file is lost.
int lua_http_lose_log(lua_State *L) {
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  if (stream->closef) linux_note_told_loss(fileno(stream->f), (int)luaL_checkinteger(L, 2));
  return 0;
}
