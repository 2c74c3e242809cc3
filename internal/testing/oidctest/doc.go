// Package oidctest is an issuer of OpenID Connect on loopback, by TLS, which tests also make lie, fail and stall. It knows one user at a
// time, who allows everything at once. Codes, challenges of PKCE and refresh tokens hold once, as the specifications have it.
package oidctest
