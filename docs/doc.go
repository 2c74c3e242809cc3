// Package docs holds no code, only the tests that check the pages beside it.
package docs
