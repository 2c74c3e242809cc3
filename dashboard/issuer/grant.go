package issuer

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/rouse-run/rouse/dashboard"
)

const (
	maxCode  = 4 << 10
	maxToken = 8 << 10 // as the review of tokens takes
	maxWord  = 40
)

// wordOf returns an error code of OAuth, or what stands for one that is none.
func wordOf(code string) string {
	if code == "" || len(code) > maxWord || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "unknown"
	}
	return code
}

// refusal returns what the user is told about an error code in the answer of the issuer.
func (i *Issuer) refusal(code string) error {
	name, status, text := i.options.Name, http.StatusForbidden, ""
	switch code = wordOf(code); code {
	case "access_denied":
		text = "the login at " + name + " was denied: log in again and allow it, or ask who runs it for access to this dashboard"
	case "temporarily_unavailable", "server_error":
		status, text = http.StatusServiceUnavailable, name+" cannot log you in at the moment: try again"
	case "invalid_scope":
		text = name + " does not give the scopes that the dashboard asks for: its operator has to change dashboard.oidc.scopes"
	case "unauthorized_client", "invalid_request", "unsupported_response_type":
		text = name + " does not take the dashboard as its client (" + code + "): its operator has to compare client ID and redirect URI"
	default:
		text = name + " has refused the login (" + code + "): try again, and ask who runs it if it is refused again"
	}
	i.log.Info("the issuer has refused a login", "error", code)
	return dashboard.Error{Status: status, Text: text}
}

// Redeem implements dashboard.Issuer. The caller has compared the state.
func (i *Issuer) Redeem(ctx context.Context, answer url.Values, s dashboard.Secrets) (dashboard.Grant, error) {
	of, err := i.metadata(ctx)
	if err != nil {
		return dashboard.Grant{}, i.away("read the metadata of the issuer", err)
	}
	if by := answer.Get("iss"); by != i.options.URL && (by != "" || of.NamesItself) {
		return dashboard.Grant{}, i.invalid("the answer names another issuer")
	}
	if answer.Has("error") {
		return dashboard.Grant{}, i.refusal(answer.Get("error"))
	}
	code := answer.Get("code")
	if code == "" || len(code) > maxCode {
		return dashboard.Grant{}, i.invalid("the answer has no code")
	}
	config, err := i.config(of)
	if err != nil {
		return dashboard.Grant{}, err
	}
	given, err := config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, i.client), code, oauth2.VerifierOption(s.Verifier))
	if err != nil {
		return dashboard.Grant{}, i.notRedeemed(err)
	}
	grant, nonce, err := i.grantOf(ctx, of, given)
	if err != nil {
		return dashboard.Grant{}, err
	}
	if subtle.ConstantTimeCompare([]byte(nonce), []byte(s.Nonce)) == 0 {
		return dashboard.Grant{}, i.invalid("the ID token is of another login")
	}
	return grant, nil
}

// notRedeemed returns what the user is told when the issuer gives no token for a code.
func (i *Issuer) notRedeemed(err error) error {
	refused, is := errors.AsType[*oauth2.RetrieveError](err)
	if !is || refused.Response.StatusCode >= http.StatusInternalServerError {
		return i.away("redeem a code", err)
	}
	i.log.Info("the issuer gives no token for a code", "reason", reasonOf(err))
	text := i.options.Name + " does not take its own answer, which is old or was used: log in again"
	if refused.ErrorCode == "invalid_client" || refused.ErrorCode == "unauthorized_client" {
		text = i.options.Name + " does not take the client of the dashboard: its operator has to compare client ID and secret"
	}
	return dashboard.Error{Status: http.StatusBadGateway, Text: text}
}

// invalid returns what the user is told about an answer that must not be taken. The reason is for the log.
func (i *Issuer) invalid(reason string) error {
	i.log.Info("an answer of the issuer is not valid", "reason", reason)
	return dashboard.Error{
		Status: http.StatusBadGateway,
		Text:   i.options.Name + " has answered with a token that is not for this login: log in again; if it lasts, the log of the dashboard has the reason",
	}
}

// grantOf returns what the tokens of an issuer are good for, and the nonce of the ID token.
func (i *Issuer) grantOf(ctx context.Context, of *metadata, given *oauth2.Token) (grant dashboard.Grant, nonce string, err error) {
	raw, _ := given.Extra("id_token").(string)
	switch {
	case raw == "":
		return grant, "", i.invalid("there is no ID token")
	case len(raw) > maxToken:
		return grant, "", dashboard.Error{
			Status: http.StatusBadGateway,
			Text:   i.options.Name + " gives a token of more than 8 KiB, which is too large: have it put fewer groups or claims into ID tokens",
		}
	}
	token, err := of.provider.VerifierContext(oidc.ClientContext(ctx, i.client), &oidc.Config{ClientID: i.options.ClientID}).Verify(ctx, raw)
	if _, ended := errors.AsType[*oidc.TokenExpiredError](err); ended {
		i.log.Info("the issuer gives tokens that have ended", "reason", err.Error())
		return grant, "", dashboard.Error{
			Status: http.StatusBadGateway, Text: i.options.Name + " gives a token that has ended already: the clocks of the issuer and the cluster differ, tell their operators",
		}
	}
	if err != nil {
		return grant, "", i.invalid(reasonOf(err))
	}
	var claims struct {
		Party string `json:"azp"`
	}
	if err := token.Claims(&claims); err != nil || len(token.Audience) > 1 && claims.Party == "" || claims.Party != "" && claims.Party != i.options.ClientID {
		return grant, "", i.invalid("the ID token was given to another client")
	}
	const share = 4 // the last quarter of its time is for renewals
	return dashboard.Grant{
		Token: raw, Subject: token.Subject, Refresh: given.RefreshToken, RenewAt: token.Expiry.Add(-time.Until(token.Expiry) / share),
	}, token.Nonce, nil
}

// Renew implements dashboard.Issuer.
func (i *Issuer) Renew(ctx context.Context, g dashboard.Grant) (dashboard.Grant, error) {
	of, err := i.metadata(ctx)
	if err != nil {
		return g, i.away("read the metadata of the issuer", err)
	}
	config, err := i.config(of)
	if err != nil {
		return g, err
	}
	given, err := config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, i.client), &oauth2.Token{RefreshToken: g.Refresh}).Token()
	if refused, is := errors.AsType[*oauth2.RetrieveError](err); is && refused.Response.StatusCode < http.StatusInternalServerError &&
		refused.Response.StatusCode != http.StatusTooManyRequests {
		i.log.Info("the issuer does not renew a login", "reason", reasonOf(err))
		return g, dashboard.ErrNotRenewed
	}
	if err != nil {
		return g, i.away("renew a login", err)
	}
	next, _, err := i.grantOf(ctx, of, given)
	if err != nil || next.Subject != g.Subject {
		return g, dashboard.ErrNotRenewed
	}
	return next, nil
}
