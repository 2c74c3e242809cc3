// Package lifecycle holds the end-to-end tests of the release itself: upgrade and uninstall. They change what
// the other features stand on, so they run last. Build tag e2e; needs helm.
package lifecycle
