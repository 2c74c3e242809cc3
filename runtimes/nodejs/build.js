// Puts the server into a directory as an image carries it: `node build.js DIRECTORY`.
//
// All of lib/ and the packages become one file, wrapped in a function so that
// server.js can run it with a code cache (see warm.js). Names are kept: stack
// traces stay readable.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const esbuild = require('esbuild');

// mime-types fills its tables from a database at every start, which takes longer
// than anything else in Express; here they are filled once.
const precomputedMimeTypes = {
  name: 'precomputed-mime-types',
  setup({ onLoad }) {
    onLoad({ filter: /[/\\]mime-types[/\\]index\.js$/ }, ({ path: file }) => {
      const source = fs.readFileSync(file, 'utf8');
      const fill = '\npopulateMaps(exports.extensions, exports.types)\n';
      if (!source.includes(fill)) throw new Error(`${file} is not as expected`);
      const { types, extensions } = require(file);
      const literal = (table) => `JSON.parse(${JSON.stringify(JSON.stringify(table))})`;
      const assign = (name, table) => `Object.assign(exports.${name}, ${literal(table)});\n`;
      const filled = `\n${assign('types', types)}${assign('extensions', extensions)}`;
      return { contents: source.replace(fill, () => filled) };
    });
  },
};

async function build(outDir) {
  fs.mkdirSync(path.join(outDir, 'node_modules'), { recursive: true });
  fs.mkdirSync(path.join(outDir, 'function'), { recursive: true });
  await esbuild.build({
    entryPoints: [path.join(__dirname, 'lib/main.js')],
    outfile: path.join(outDir, 'bundle.js'),
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    charset: 'ascii',
    legalComments: 'external',
    plugins: [precomputedMimeTypes],
    banner: { js: '(function (require, module, exports) {' },
    footer: { js: '})' },
    logLevel: 'warning',
  });
  for (const file of ['server.js', 'package.json', 'sdk/index.js', 'sdk/package.json']) {
    fs.cpSync(path.join(__dirname, file), path.join(outDir, file));
  }
  fs.rmSync(path.join(outDir, 'node_modules/sdk'), { force: true });
  fs.symlinkSync('../sdk', path.join(outDir, 'node_modules/sdk'));
}

build(path.resolve(process.argv[2]));
