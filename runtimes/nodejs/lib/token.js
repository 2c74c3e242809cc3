// The token for the publisher in installations that restrict publishing: a file that is replaced from time to time.
'use strict';

const fs = require('node:fs');

// The characters that a header can carry, up to the publisher's limit.
const TOKEN = /^[\x21-\x7e]{1,8192}$/;

// TokenFile reads its file again when it has changed. While the file cannot be read, the last token is used.
class TokenFile {
  #path;
  #seen;
  #token;

  constructor(path) {
    this.#path = path;
  }

  // read returns the token, or undefined without one.
  read() {
    if (!this.#path) return undefined;
    try {
      const { ino, mtimeMs, size } = fs.statSync(this.#path);
      const seen = `${ino} ${mtimeMs} ${size}`;
      if (seen !== this.#seen) {
        const [token] = TOKEN.exec(fs.readFileSync(this.#path, 'latin1').trim()) ?? [];
        this.#token = token;
        this.#seen = seen;
      }
    } catch {
      // The publisher rejects a request without a token and names the reason.
    }
    return this.#token;
  }
}

module.exports = { TokenFile };
