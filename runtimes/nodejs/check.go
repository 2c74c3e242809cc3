package nodejs

import (
	"path/filepath"
	"regexp"

	"github.com/rouse-run/rouse/runtimes/language"
)

// compileScript compiles a source from its standard input as CommonJS. `node --check` accepts everything that might be
// an ES module.
const compileScript = `
const file = process.argv[1];
const source = require('node:fs').readFileSync(0, 'utf8').replace(/^#!.*/, '');
try {
  require('node:vm').compileFunction(source, ['exports', 'require', 'module', '__filename', '__dirname'], { filename: file });
} catch (error) {
  console.error(error.stack);
  process.exitCode = 3;
}`

// moduleWords are what CommonJS's parser calls the parts of an ES module.
var moduleWords = regexp.MustCompile(`(?i)\b(import|export|module|await)\b`)

// check compiles a source as the kind of module that Node.js takes it for.
func check(source language.Source, compiler language.Compiler) string {
	module := entryOf(source.Manifest).Type
	switch filepath.Ext(source.File) {
	case ".mjs":
		module = "module"
	case ".cjs":
		module = "commonjs"
	}
	if module != "module" {
		message := compiler("node", "-e", compileScript, "--", source.File)
		if message == "" || module == "commonjs" || !moduleWords.MatchString(language.LastLine(message)) {
			return message
		}
	}
	return compiler("node", "--input-type=module", "--check")
}
