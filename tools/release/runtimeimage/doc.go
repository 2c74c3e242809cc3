// Package runtimeimage makes the images of runtimes: upon the base of a language the one layer that the runtime's own layer.sh fills,
// for each platform. Nothing of another platform runs meanwhile.
package runtimeimage
