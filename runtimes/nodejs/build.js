// Writes the server into a directory in the form of an image: `node build.js DIRECTORY`.
//
// lib/ and the packages become a few files, each wrapped in a function so that
// server.js can run it with a code cache (see warm.js). Names are kept: stack
// traces stay readable.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const esbuild = require('esbuild');
const { plugins } = require('./bundling.js');
const { copyPackages } = require('./packages.js');

// The parts that server.js can load later.
const PARTS = ['opentelemetry', 'requestlog', 'scrape', 'standin'].map((name) => `parts/${name}.js`);

async function build(outDir) {
  fs.mkdirSync(path.join(outDir, 'node_modules'), { recursive: true });
  fs.mkdirSync(path.join(outDir, 'function'), { recursive: true });
  await esbuild.build({
    entryPoints: ['main.js', ...PARTS].map((file) => path.join(__dirname, 'lib', file)),
    outdir: path.join(outDir, 'bundles'),
    entryNames: '[name]',
    bundle: true,
    platform: 'node',
    // ES modules first: a bundle contains only their used parts.
    mainFields: ['module', 'main'],
    target: 'node20',
    // A script that vm runs has require() but not import().
    supported: { 'dynamic-import': false },
    format: 'cjs',
    charset: 'ascii',
    legalComments: 'external',
    plugins,
    banner: { js: '(function (require, module, exports) {' },
    footer: { js: '})' },
    logLevel: 'warning',
  });
  for (const file of ['server.js', 'package.json', 'sdk/index.js', 'sdk/package.json']) {
    fs.cpSync(path.join(__dirname, file), path.join(outDir, file));
  }
  copyPackages(__dirname, outDir);
  fs.rmSync(path.join(outDir, 'node_modules/sdk'), { force: true });
  fs.symlinkSync('../sdk', path.join(outDir, 'node_modules/sdk'));
}

build(path.resolve(process.argv[2]));
