package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// The client that the issuer knows.
const (
	ClientID = "rouse-dashboard"
	Secret   = "the-secret-of-the-client"
)

const keyID = "one"

// Behaviour is how the issuer behaves.
type Behaviour struct {
	// User is the one who logs in.
	User string
	// Lifetime is that of ID tokens.
	Lifetime time.Duration
	// Claims replace those of ID tokens; nil ones are left out.
	Claims map[string]any
	// Answer replaces parameters of the answer to a login; empty ones are left out.
	Answer map[string]string
	// Metadata replace those of the issuer.
	Metadata map[string]any
	// Public lets the client come without its secret.
	Public bool
	// Token responds to requests for tokens, and All to all, in place of the issuer.
	Token, All http.HandlerFunc
}

// Issuer is a running issuer.
type Issuer struct {
	*httptest.Server

	key *rsa.PrivateKey

	mu        sync.Mutex
	behaviour Behaviour
	logins    map[string]login // by code
	refresh   map[string]login // by refresh token
	given     []string         // codes, tokens and secrets
	asked     int
}

// login is what was asked for.
type login struct {
	challenge, nonce, redirect, user string
	scopes                           []string
}

const bits = 2048

// Start starts an issuer, which the caller closes.
func Start(b Behaviour) (*Issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, err
	}
	i := &Issuer{key: key, behaviour: b, logins: map[string]login{}, refresh: map[string]login{}, given: []string{Secret}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.metadata)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("GET /logout", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("post_logout_redirect_uri"), http.StatusSeeOther)
	})
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asked++
		b := i.behaviour
		i.mu.Unlock()
		switch {
		case b.All != nil:
			b.All(w, r)
		case b.Token != nil && r.URL.Path == "/token":
			b.Token(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	return i, nil
}

// Change changes how the issuer behaves.
func (i *Issuer) Change(change func(b *Behaviour)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(&i.behaviour)
}

// Asked returns the number of requests.
func (i *Issuer) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// Given returns everything that nobody else may see: codes, tokens and the secret.
func (i *Issuer) Given() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.given...)
}

// CA returns the certificate that clients have to trust, in PEM form.
func (i *Issuer) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
}

func (i *Issuer) metadata(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	about := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"end_session_endpoint": i.URL + "/logout", "id_token_signing_alg_values_supported": []string{oidc.RS256},
		"authorization_response_iss_parameter_supported": true, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
	}
	maps.Copy(about, i.behaviour.Metadata)
	write(w, http.StatusOK, about)
}

func (i *Issuer) keys(w http.ResponseWriter, r *http.Request) {
	published := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: i.key.Public(), KeyID: keyID, Algorithm: oidc.RS256}}}
	published.SetIssuer(i.URL)
	published.ServeHTTP(w, r)
}

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	back, err := url.Parse(asked.Get("redirect_uri"))
	if err != nil || asked.Get("client_id") != ClientID || asked.Get("response_type") != "code" || asked.Get("code_challenge_method") != "S256" {
		http.Error(w, "this client may not ask so", http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	code := rand.Text()
	i.given = append(i.given, code)
	i.logins[code] = login{
		asked.Get("code_challenge"), asked.Get("nonce"), asked.Get("redirect_uri"), i.behaviour.User, strings.Fields(asked.Get("scope")),
	}
	answer := url.Values{"code": {code}, "state": {asked.Get("state")}, "iss": {i.URL}}
	for name, value := range i.behaviour.Answer {
		if answer.Set(name, value); value == "" {
			answer.Del(name)
		}
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if id != ClientID || secret != Secret && (!i.behaviour.Public || secret != "") {
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	known, taken := i.logins, r.PostFormValue("code")
	if r.PostFormValue("grant_type") == "refresh_token" {
		known, taken = i.refresh, r.PostFormValue("refresh_token")
	}
	of, found := known[taken]
	delete(known, taken)
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !found || r.PostFormValue("grant_type") == "authorization_code" &&
		(base64.RawURLEncoding.EncodeToString(challenge[:]) != of.challenge || r.PostFormValue("redirect_uri") != of.redirect) {
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	write(w, http.StatusOK, i.tokens(of))
}

// tokens returns the tokens for a login. The caller holds the lock.
func (i *Issuer) tokens(of login) map[string]any {
	tokens := map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": int(i.behaviour.Lifetime.Seconds())}
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "aud": ClientID, "sub": of.user, "nonce": of.nonce, "iat": now.Unix(), "exp": now.Add(i.behaviour.Lifetime).Unix(), "jti": rand.Text(),
	}
	for name, value := range i.behaviour.Claims {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	text, _ := json.Marshal(claims) // tests set what JSON has
	id := oidctest.SignIDToken(i.key, keyID, oidc.RS256, string(text))
	tokens["id_token"] = id
	i.given = append(i.given, id)
	for _, scope := range of.scopes {
		if scope == oidc.ScopeOfflineAccess {
			next := rand.Text()
			i.refresh[next] = of
			i.given = append(i.given, next)
			tokens["refresh_token"] = next
		}
	}
	return tokens
}

func write(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content) // the client may be gone
}
