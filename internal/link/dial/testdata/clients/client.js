// A Node client in two manners: http, fetch. Prints one JSON object about a request.
const http = require('http')
const [manner, host, port, limit] = [process.argv[2], process.argv[3], Number(process.argv[4]), Number(process.argv[5])]
const began = process.hrtime.bigint()
const since = () => Number((process.hrtime.bigint() - began) / 1000000n)
const out = { error: '', connect_ms: -1, total_ms: 0, gap_ms: 0, peer: '' }
let last = since()
setInterval(() => {
  const now = since()
  out.gap_ms = Math.max(out.gap_ms, now - last)
  last = now
}, 5)
const end = (error) => {
  out.error = error
  out.total_ms = since()
  console.log(JSON.stringify(out))
  process.exit(0)
}
setTimeout(() => end('timeout'), limit * 1000)
if (manner === 'fetch') {
  fetch(`http://${host}:${port}/`).then((res) => res.text()).then(() => end(''), (e) => {
    const code = (e.cause || e).code
    end(code === 'UND_ERR_SOCKET' ? 'ECONNRESET' : code) // its name for any end within a body
  })
} else {
  const req = http.get({ host, port, path: '/' }, (res) => {
    res.on('error', (e) => end(e.code))
    res.on('end', () => end(''))
    res.resume()
  })
  req.on('socket', (s) => s.on('connect', () => {
    out.connect_ms = since()
    out.peer = `${s.remoteAddress}:${s.remotePort}`
  }))
  req.on('error', (e) => end(e.code))
}
