// Package httpclient gives tests an HTTP client whose connections no other test closes.
//
// An httptest.Server that closes also closes the idle connections of http.DefaultTransport, which all
// tests of a process share. A connection that was just opened for a request is idle for a moment, and the
// request of another test then fails with "http: CloseIdleConnections called".
package httpclient
