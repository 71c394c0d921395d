// Writes the port of an HTTP server, answers one request, and ends.
import { createServer } from "node:http";
const server = createServer((request, response) => {
  response.end("hello");
  server.close();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
