// Package plan decides what a release consists of and what its parts are called. It is pure.
package plan
