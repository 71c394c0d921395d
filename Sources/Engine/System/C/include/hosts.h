// Host names that are not ASCII.
#pragma once

/// Converts a host name to the form that name servers, certificates and URLs use: "bücher.example" becomes
/// "xn--bcher-kva.example" (IDNA 2008, with the mapping of UTS 46 that browsers use). A name in ASCII stays as it is.
/// Returns 1; or 0 with a code and a text that contains the name: EINVAL for an impossible name, IDN_MISSING without
/// libidn2. The first name that is not ASCII loads libidn2. Thread-safe.
int linux_ascii_host(const char *name, char out[256], char code[32], char text[512]);

/// Like linux_ascii_host, for a label of a URL's host; the caller has to check the characters of the result.
int linux_ascii_label(const char *label, char out[256], char code[32], char text[512]);

/// Checks a label in lower case that begins with "xn--": whether it is the ASCII form of an international one. Has the
/// same results as linux_ascii_host, but accepts the label if libidn2 is missing.
int linux_check_punycode(const char *label, char out[256], char code[32], char text[512]);
