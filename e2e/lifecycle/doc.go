// Package lifecycle contains the end-to-end tests of the release itself: upgrade and uninstall. They change the
// installation that the other features use, so they run last. Build tag e2e; needs helm.
package lifecycle
