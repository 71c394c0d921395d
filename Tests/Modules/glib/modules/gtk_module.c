// A window of GTK 3 that counts how often it is drawn. The module needs no header of GTK.
#include <lauxlib.h>

int gtk_init_check(int *, char ***);
void *gtk_window_new(int);
void gtk_widget_show(void *);
void gtk_widget_queue_draw(void *);
void gtk_widget_destroy(void *);
unsigned long g_signal_connect_data(void *, const char *, void (*)(void), void *, void (*)(void *), int);

static void *window;
static int draws;

static int draw(void *widget, void *canvas, void *data) { return (void)widget, (void)canvas, (void)data, draws++, 0; }

static int open(lua_State *L) {
  if (!gtk_init_check(NULL, NULL)) return lua_pushboolean(L, 0), 1;
  window = gtk_window_new(0);
  g_signal_connect_data(window, "draw", (void (*)(void))draw, NULL, NULL, 0);
  gtk_widget_show(window);
  lua_pushboolean(L, 1);
  return 1;
}

static int draw_again(lua_State *L) { return (void)L, gtk_widget_queue_draw(window), 0; }
static int count(lua_State *L) { return lua_pushinteger(L, draws), 1; }
static int shut(lua_State *L) { return (void)L, gtk_widget_destroy(window), 0; }

int luaopen_gtk_module(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"open", open}, {"draw_again", draw_again}, {"draws", count}, {"close", shut}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
