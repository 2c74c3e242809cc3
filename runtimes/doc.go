// Package runtimes embeds the files of the languages' servers that each layer.sh needs. Only local mode imports it, so
// that no other program contains them. Each language is described by its own package below, and package languages lists
// them.
//
// It guarantees that the files are those of the images, and that their hash covers every one of them.
package runtimes
