// The client of the network's benchmarks, with Node's fetch: client.mjs PORT COUNT
const [port, count] = process.argv.slice(2).map(Number)
const url = `http://127.0.0.1:${port}/`
await (await fetch(url)).text()
const before = process.cpuUsage()
let left = count
await Promise.all([...Array(50)].map(async () => {
  while (left-- > 0) if ((await fetch(url).then(r => r.text())).length != 11) process.exit(1)
}))
const used = process.cpuUsage(before)
console.log((used.user + used.system) / 1e6)
process.exit(0)
