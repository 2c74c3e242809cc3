// Package runtimes carries the files from which the languages' servers are made: what layer.sh of each needs. Local mode
// alone imports it, so that no other program carries them. What a language is says its own package below, and which
// languages there are, package languages.
//
// It guarantees that the files are those of the images, and that their hash changes with every one of them.
package runtimes
