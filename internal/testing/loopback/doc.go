// Package loopback gives tests a port that is theirs for the whole test, also while nothing listens on it.
//
// A port that was found by listening and closing is not reserved: the next socket of any test that asks
// the kernel for one may get it, and "connection refused" becomes the answer of another test's server.
//
// Package httpclient gives tests an HTTP client whose connections no other test closes.
//
// An httptest.Server that closes also closes the idle connections of http.DefaultTransport, which all
// tests of a process share. A connection that was just opened for a request is idle for a moment, and the
// request of another test then fails with "http: CloseIdleConnections called".
//
// Package sinktest is the receiving side of deliveries for tests: a real HTTP server on loopback that
// records what it is sent, can be stopped and started again on the same address, and a list of endpoints
// that a test changes.
package loopback
