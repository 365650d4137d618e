// Gets a key for each line that it is sent.
'use strict'
const net = require('net')
const affected = process.argv[2] === 'affected'
const { createClient } = require(affected ? 'redis4' : 'redis5')

const socket = { host: 'cache' }
if (!affected) socket.socketTimeout = 700

const client = createClient({ socket, disableOfflineQueue: true })
client.on('error', () => {})
client.connect().then(() => {
  net.createServer((c) => {
    c.on('error', () => {})
    c.on('data', () => {
      client.get('k').then((v) => `${v}`, (e) => `error ${e.message}`).then((said) => c.write(said.replace(/\n/g, ' ') + '\n'))
    })
  }).listen(7000)
})
