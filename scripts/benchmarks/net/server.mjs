// The same on Node: server.mjs WORKLOAD PORT
import net from 'net'
import readline from 'readline'
const [workload, port] = process.argv.slice(2)
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
net.createServer({ allowHalfOpen: true }, s => { s.setNoDelay(true); s.on('error', () => {}); handlers[workload](s) })
  .listen({ port: +port, host: '127.0.0.1', backlog: 4096 })
