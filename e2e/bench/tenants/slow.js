// A server that is as slow as it may be, in place of a registry and a Git repository, and that has costly keys.
const http = require('http')
const crypto = require('crypto')

const big = bytes => { const n = crypto.randomBytes(bytes); n[0] |= 128; n[bytes - 1] |= 1; return n.toString('base64url') }
const keys = n => JSON.stringify({ keys: Array.from({ length: 10 }, (_, i) => ({ kty: 'RSA', kid: n + '-' + i, alg: 'RS256', n: big(512), e: 'f____w' })) })

http.createServer((request, response) => {
  if (request.url.startsWith('/issuers/')) return response.end(keys(request.url.slice(9)))
  const after = request.url.startsWith('/v2/') ? 4500 : 29000
  setTimeout(() => { response.statusCode = request.url.startsWith('/v2/') ? 200 : 404; response.end() }, after)
}).listen(8090)

module.exports.main = () => 'slow'
