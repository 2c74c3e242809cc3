// Package compile builds the binaries of a release for each platform, without C.
package compile
