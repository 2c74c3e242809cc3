// Package bases finds the images that those of the runtimes stand on: a language with its package manager, for several platforms, each
// named by its digest.
package bases
