// Counts orders for each line that it is sent, by a pool of one connection.
'use strict'
const net = require('net')
const { Pool } = require('pg')

const pool = new Pool({ host: 'db', user: 'shop', database: 'shop', max: 1, query_timeout: process.argv[2] === 'right' ? 700 : 0 })
pool.on('error', () => {})
net.createServer((c) => {
  c.on('error', () => {})
  c.on('data', () => {
    pool.query('SELECT count(*) AS n FROM orders').then((r) => r.rows[0].n, (e) => `error ${e.message}`).then((said) => c.write(said + '\n'))
  })
}).listen(7000)
