// Package dashboard tests the dashboard as its users have it: a real rouse dev with the Functions of testdata, and the dashboard of a real API
// server that trusts a real issuer of OpenID Connect, whose pages Chromium shows without a window. It is a module of its own, because nothing else needs a driver of browsers, and no part of make test: make
// test-dashboard installs Chromium where it is missing.
package dashboard
