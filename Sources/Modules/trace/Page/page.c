// Read-only data without addresses in it: the memory of a program that makes no recording is never touched.
#include "CTracing.h"

// One page, made by joining several files.
static const char page[] = {
#embed "page/head.html"
    ,
#embed "page/style.css"
    ,
#embed "page/body.html"
    ,
#embed "page/reading.js"
    ,
#embed "page/lanes.js"
    ,
#embed "page/flows.js"
    ,
#embed "page/drawing.js"
    ,
#embed "page/moving.js"
    ,
#embed "page/words.js"
    ,
#embed "page/findings.js"
    ,
#embed "page/table.js"
    ,
#embed "page/hands.js"
    ,
#embed "page/end.html"
};

const char *tracing_page(size_t *length) {
  *length = sizeof page;
  return page;
}
