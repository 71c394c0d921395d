// loosen ARCHIVE [FUNCTION…]: lets the linker drop unused functions of an archive of Swift's library.
//
// The compiler marks each public function of that library as retained, since a dynamic library needs them all. A
// program that contains the library does not need them all, so the marks are cleared, except on the records that
// Swift's runtime searches for types and their conformances. The FUNCTIONs become weak symbols, so that the program can
// define its own versions of them.
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const unsigned long long retained = 1 << 21;  // SHF_GNU_RETAIN, which old headers do not have

static int fail(const char *file, const char *problem) {
  fprintf(stderr, "loosen: %s: %s\n", file, problem);
  return 1;
}

// Members of an archive are aligned to two bytes only.
#define READ(variable, place) memcpy(&(variable), place, sizeof(variable))

// Weakens the functions in a table of symbols.
static void weaken(char *object, const Elf64_Shdr *table, const char *names, char **functions) {
  for (char *at = object + table->sh_offset; at < object + table->sh_offset + table->sh_size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    READ(symbol, at);
    if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL || symbol.st_shndx == SHN_UNDEF) continue;
    for (char **name = functions; *name; name++)
      if (strcmp(names + symbol.st_name, *name) == 0)
        at[offsetof(Elf64_Sym, st_info)] = (char)ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(symbol.st_info));
  }
}

// Returns the number of sections whose mark is cleared.
static int loosen(char *object, char **functions) {
  Elf64_Ehdr head;
  READ(head, object);
  char *first = object + head.e_shoff;
  Elf64_Shdr names, section, strings;
  READ(section, first);
  // A file with very many sections has these two numbers in the header of its first section.
  size_t count = head.e_shnum ? head.e_shnum : section.sh_size;
  size_t of_names = head.e_shstrndx == SHN_XINDEX ? section.sh_link : head.e_shstrndx;
  READ(names, first + of_names * sizeof section);
  int cleared = 0;
  for (size_t i = 0; i < count; i++) {
    READ(section, first + i * sizeof section);
    if (section.sh_type == SHT_SYMTAB) {
      READ(strings, first + section.sh_link * sizeof section);
      weaken(object, &section, object + strings.sh_offset, functions);
    }
    const char *name = object + names.sh_offset + section.sh_name;
    if (!(section.sh_flags & retained) || strncmp(name, "swift5_", 7) == 0) continue;
    section.sh_flags &= ~retained;
    memcpy(first + i * sizeof section, &section, sizeof section);
    cleared++;
  }
  return cleared;
}

int main(int count, char **words) {
  if (count < 2) return fail("ARCHIVE [FUNCTION…]", "these are expected");
  const char *file = words[1];
  int descriptor = open(file, O_RDWR);
  struct stat status;
  if (descriptor < 0 || fstat(descriptor, &status) != 0) return fail(file, "cannot be opened");
  char *start = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (start == MAP_FAILED || memcmp(start, "!<arch>\n", 8) != 0) return fail(file, "is not an archive");
  int cleared = 0;
  // Each member follows a head of 60 bytes, in which its size is a decimal number at byte 48.
  for (char *at = start + 8; at + 60 <= start + status.st_size;) {
    long size = strtol(at + 48, NULL, 10);
    char *object = at + 60;
    if (size > EI_NIDENT && memcmp(object, ELFMAG, SELFMAG) == 0 && object[EI_CLASS] == ELFCLASS64)
      cleared += loosen(object, words + 2);
    at = object + size + size % 2;
  }
  return cleared > 0 ? 0 : fail(file, "has no retained functions");
}
