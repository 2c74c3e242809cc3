// Package issuer logs users of the dashboard in at an issuer of OpenID Connect, whose ID token is their token of Kubernetes.
//
//	LogIn  --> the address of the issuer, by the authorization code flow with PKCE
//	Redeem --> the answer of the issuer: issuer, error, code --> token endpoint --> signature, audience, time, nonce --> Grant
//	Renew  --> a refresh token --> token endpoint --> the same checks, and the same subject --> Grant
//
// It owns the requests to the issuer. The dashboard keeps secrets, binds them to a browser, and has the API server review the token: what
// this package takes for valid is not yet a user.
//
// Guarantees:
//   - Requests go to https alone and follow no redirect. Each ends after ten seconds and reads 1 MiB at most; after one that had no answer
//     the next five seconds have none either, so that an issuer that is away holds up nobody.
//   - An ID token has up to 8 KiB, the client as audience and as authorized party, and the nonce of the login.
//   - No code, token or secret is in an error, a log or an address. Texts for users have nothing that a request or an issuer says.
package issuer
