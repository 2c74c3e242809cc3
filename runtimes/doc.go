// Package runtimes carries the files from which both runtimes' servers are made: what layer.sh of each needs.
//
// It guarantees that the files are those of the images, and that their hash changes with every one of them.
package runtimes
