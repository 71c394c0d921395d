// The server of the network's benchmarks, on Node: server.mjs WORKLOAD PORT
import net from 'net'
import readline from 'readline'
import http from 'http'
import tls from 'tls'
import fs from 'fs'
const [workload, port, directory] = process.argv.slice(2)
const room = new Set()
const handlers = {
  echo: s => s.on('data', d => s.write(d)),
  lines: s => readline.createInterface({ input: s, crlfDelay: Infinity }).on('line', l => s.write(l + '\n')),
  sink: s => { let n = 0; s.on('data', d => { n += d.length }); s.on('end', () => s.end(n + '\n')) },
  answer: s => s.on('data', () => s.end('hello\n')),
  idle: s => s.on('data', () => {}),
  chat: s => {
    room.add(s)
    s.on('close', () => room.delete(s))
    let rest = ''
    s.setEncoding('utf8')
    s.on('data', d => {
      const lines = (rest + d).split('\n')
      rest = lines.pop()
      for (const line of lines) for (const other of room) if (other !== s) other.write(line + '\n')
    })
  },
}
handlers.idle_data = handlers.idle
    const certificate = () =>
      ({ cert: fs.readFileSync(directory + '/cert.pem'), key: fs.readFileSync(directory + '/key.pem') })
    const block = Buffer.alloc(65536, 'x')
const others = {
  http: () => http.createServer((request, response) => {
    const isJSON = request.url == '/json'
    const body = isJSON ? JSON.stringify({ id: 7, name: 'item 7', tags: ['a', 'b', 'c'], price: 9.5 }) : 'hello world'
    response.writeHead(
      200, { 'content-type': isJSON ? 'application/json' : 'text/plain', 'content-length': body.length })
    response.end(body)
  }),
  tls_answer: () => tls.createServer(certificate(), s => s.on('error', () => {}).on('data', () => s.end())),
  tls_source: () => tls.createServer(certificate(), s => {
    let n = 0
    const more = () => { while (n++ < 5000) if (!s.write(block)) return s.once('drain', more); s.end() }
    s.on('error', () => {})
    more()
  }),
}
if (others[workload]) others[workload]().listen({ port: +port, host: '127.0.0.1', backlog: 4096 })
    else net
      .createServer({ allowHalfOpen: true },
        s => {
          s.setNoDelay(true);
          s.on('error', () => {});
          handlers[workload](s)
        })
      .listen({ port: +port, host: '127.0.0.1', backlog: 4096 })
