// Package loopback gives tests servers, clients and ports on the loopback interface that no other test disturbs.
//
//   - A port is reserved for the whole test, also while nothing listens on it. A port found by listening and closing is not reserved:
//     the kernel may give it to the next socket of any test, and "connection refused" becomes the response of another test's server.
//   - A client has connections of its own. An httptest.Server that closes also closes the idle connections of http.DefaultTransport,
//     which all tests of a process share, and a request of another test then fails with "http: CloseIdleConnections called".
//   - A server of deliveries records the requests it receives, can be stopped and started again on the same address, and has a list
//     of endpoints that a test changes.
//   - Certificates are made for servers with TLS.
package loopback
