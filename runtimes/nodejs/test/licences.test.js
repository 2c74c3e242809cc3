// Packages of the image have allowed licences, and the image contains their texts.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { copyPackages, installed, legal } = require('../packages.js');

const ROOT = path.join(__dirname, '..');
const ALLOWED = ['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'CC0-1.0', 'ISC', 'MIT', 'Unlicense'];

test('packages of the image have licences that are allowed', () => {
  const { packages } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8'));
  const places = installed(ROOT);
  assert.ok(places.length > 50, 'the list of packages is not what it was');
  for (const place of places) {
    assert.ok(ALLOWED.includes(packages[place].license), `${place} is under ${packages[place].license}: read it, then add it to the list`);
  }
});

test('licences and notices of packages are in the image', (t) => {
  const out = fs.mkdtempSync(path.join(os.tmpdir(), 'licences-'));
  t.after(() => fs.rmSync(out, { recursive: true }));
  copyPackages(ROOT, out);
  for (const place of installed(ROOT)) {
    const texts = legal(path.join(ROOT, place)).map((name) => fs.readFileSync(path.join(out, place, name), 'utf8'));
    assert.match(texts.join(), /licen[cs]e|permission|copyright/i, `${place} has no licence in the image`);
  }
});
