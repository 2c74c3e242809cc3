// Copies the packages of the server to a folder where handlers find them, too, as Functions for Kyma expect.
//
// The server itself is in the bundles and does not load them. Files that Node.js never reads are left out.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const UNREAD = /\.(d\.[cm]?ts|ts|map|md|markdown|flow)$|[/\\]@opentelemetry[/\\][^/\\]+[/\\]build[/\\]es[^/\\]+$|[/\\]axios[/\\]dist[/\\](browser|esm|axios[^/\\]*)$/i;

// Licences and notices are copied, whatever their ending: they must be distributed with the packages. Packages without such
// a file have them in the README.
const LEGAL = /^(un)?(licen[cs]e|copying|notice)/i;

function legal(directory) {
  const entries = fs.readdirSync(directory, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => entry.name);
  const files = names.filter((name) => LEGAL.test(name));
  return files.length > 0 ? files : names.filter((name) => /^readme/i.test(name));
}

// installed lists the packages except development tools, by their places in node_modules.
function installed(root) {
  const { packages } = JSON.parse(fs.readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  return Object.keys(packages).filter((place) => place.startsWith('node_modules/') && !packages[place].dev && !packages[place].link);
}

function copyPackages(root, outDir) {
  for (const place of installed(root)) {
    const from = path.join(root, place);
    // The list also has packages nested in others.
    const kept = legal(from).map((name) => path.join(from, name));
    const filter = (file) => (kept.includes(file) || !UNREAD.test(file)) && file !== path.join(from, 'node_modules');
    fs.cpSync(from, path.join(outDir, place), { recursive: true, filter });
  }
}

module.exports = { copyPackages, installed, legal };
