// Package docs holds no code, only the tests that keep the pages beside it true.
package docs
