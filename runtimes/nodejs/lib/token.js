// The token that the publisher asks for where an installation restricts publishing: a file that is replaced now and then.
'use strict';

const fs = require('node:fs');

// What a header can carry, and no more than the publisher reads.
const TOKEN = /^[\x21-\x7e]{1,8192}$/;

// TokenFile is read again when it has changed. While it cannot be read, the last token counts.
class TokenFile {
  #path;
  #seen;
  #token;

  constructor(path) {
    this.#path = path;
  }

  // read returns undefined when there is no token.
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
      // The publisher refuses a request without a token, with the reason.
    }
    return this.#token;
  }
}

module.exports = { TokenFile };
