package door

import (
	"crypto/sha1" //nolint:gosec // Twilio signs with it; as an HMAC it is not broken
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
)

// standard verifies by https://www.standardwebhooks.com: v1 is an HMAC, v1a a signature of ed25519.
func standard(secrets []secret) func(*Request, *stamp) (Verified, error) {
	return func(r *Request, at *stamp) (Verified, error) {
		id, err1 := single(r.Header, "Webhook-Id")
		sent, err2 := single(r.Header, "Webhook-Timestamp")
		listed, err3 := single(r.Header, "Webhook-Signature")
		if err := firstOf(err1, err2, err3); err != nil {
			return Verified{}, err
		}
		if id == "" || len(id) > mostID || strings.Contains(id, ".") { // a dot would let parts shift
			return Verified{}, ErrMalformed
		}
		signedAt, err := at.read(sent)
		if err != nil {
			return Verified{}, err
		}
		hmacs, signatures, err := standardSignatures(listed)
		if err != nil {
			return Verified{}, err
		}
		head := []byte(id + "." + sent + ".")
		name, ok := fits(sha256.New, secrets, hmacs, head, r.Body)
		if signer := signedBy(secrets, signatures, append(head, r.Body...)); !ok && signer != "" {
			name, ok = signer, true
		}
		if !ok {
			return Verified{}, ErrSignature
		}
		return Verified{ID: id, Time: signedAt, Key: name}, nil
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// standardSignatures splits a list such as "v1,BASE64 v1a,BASE64". Other versions are ignored.
func standardSignatures(listed string) (hmacs, signatures [][]byte, err error) {
	parts := strings.Fields(listed)
	if len(parts) == 0 || len(parts) > mostSignatures {
		return nil, nil, ErrMalformed
	}
	for _, part := range parts {
		version, text, _ := strings.Cut(part, ",")
		value, err := base64.StdEncoding.DecodeString(text)
		switch {
		case version == "v1" && err == nil:
			hmacs = append(hmacs, value)
		case version == "v1a" && err == nil:
			signatures = append(signatures, value)
		case version == "v1" || version == "v1a":
			return nil, nil, ErrMalformed
		}
	}
	return hmacs, signatures, nil
}

func github(secrets []secret) func(*Request, *stamp) (Verified, error) {
	return func(r *Request, _ *stamp) (Verified, error) {
		name, err := inHeader(r, "X-Hub-Signature-256", "sha256=", hex.DecodeString, sha256.New, secrets, r.Body)
		return Verified{Key: name}, err
	}
}

// inHeader verifies the only signature of a header.
func inHeader(
	r *Request, header, prefix string, decode func(string) ([]byte, error), algorithm func() hash.Hash, secrets []secret, message ...[]byte,
) (string, error) {
	value, err := single(r.Header, header)
	if err != nil {
		return "", err
	}
	text, ok := strings.CutPrefix(value, prefix)
	signature, err := decode(text)
	if !ok || err != nil {
		return "", ErrMalformed
	}
	name, ok := fits(algorithm, secrets, [][]byte{signature}, message...)
	if !ok {
		return "", ErrSignature
	}
	return name, nil
}

// gitlab verifies the secret itself, which older versions send, or signatures as Standard Webhooks has them.
func gitlab(secrets []secret, keys *Keys) func(*Request, *stamp) (Verified, error) {
	signing, err := readSecrets(keys, asStandard)
	byStandard := standard(signing)
	return func(r *Request, at *stamp) (Verified, error) {
		if len(r.Header.Values("Webhook-Signature")) > 0 && err == nil {
			return byStandard(r, at)
		}
		token, err := single(r.Header, "X-Gitlab-Token")
		if err != nil {
			return Verified{}, err
		}
		name, ok := equals(secrets, token)
		if !ok {
			return Verified{}, ErrKey
		}
		return Verified{Key: name}, nil
	}
}

func stripe(secrets []secret) func(*Request, *stamp) (Verified, error) {
	return func(r *Request, at *stamp) (Verified, error) {
		listed, err := single(r.Header, "Stripe-Signature")
		if err != nil {
			return Verified{}, err
		}
		sent, signatures, err := stripeParts(listed)
		if err != nil {
			return Verified{}, err
		}
		signedAt, err := at.read(sent)
		if err != nil {
			return Verified{}, err
		}
		name, ok := fits(sha256.New, secrets, signatures, []byte(sent+"."), r.Body)
		if !ok {
			return Verified{}, ErrSignature
		}
		return Verified{Time: signedAt, Key: name}, nil
	}
}

// stripeParts splits a list such as "t=TIME,v1=HEX,v0=HEX". Unknown parts are ignored.
func stripeParts(listed string) (sent string, signatures [][]byte, err error) {
	const mostParts = 2 * mostSignatures
	parts := strings.SplitN(listed, ",", mostParts+1)
	if len(parts) > mostParts {
		return "", nil, ErrMalformed
	}
	for _, part := range parts {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); {
		case name == "t" && sent != "":
			return "", nil, ErrMalformed
		case name == "t":
			sent = value
		case name == "v1":
			signature, err := hex.DecodeString(value)
			if err != nil || len(signatures) == mostSignatures {
				return "", nil, ErrMalformed
			}
			signatures = append(signatures, signature)
		}
	}
	if sent == "" || len(signatures) == 0 {
		return "", nil, ErrMalformed
	}
	return sent, signatures, nil
}

func slack(secrets []secret) func(*Request, *stamp) (Verified, error) {
	return func(r *Request, at *stamp) (Verified, error) {
		sent, err := single(r.Header, "X-Slack-Request-Timestamp")
		if err != nil {
			return Verified{}, err
		}
		signedAt, err := at.read(sent)
		if err != nil {
			return Verified{}, err
		}
		name, err := inHeader(r, "X-Slack-Signature", "v0=", hex.DecodeString, sha256.New, secrets, []byte("v0:"+sent+":"), r.Body)
		return Verified{Time: signedAt, Key: name}, err
	}
}

func shopify(secrets []secret) func(*Request, *stamp) (Verified, error) {
	return func(r *Request, _ *stamp) (Verified, error) {
		name, err := inHeader(r, "X-Shopify-Hmac-Sha256", "", base64.StdEncoding.DecodeString, sha256.New, secrets, r.Body)
		return Verified{Key: name}, err
	}
}

// twilio verifies an HMAC of the URL and the fields of a form, or of the URL alone, whose query binds the body then.
func twilio(secrets []secret, public string) func(*Request, *stamp) (Verified, error) {
	return func(r *Request, _ *stamp) (Verified, error) {
		fields, err := twilioFields(r)
		if err != nil {
			return Verified{}, err
		}
		refused := error(ErrSignature)
		for _, address := range twilioAddresses(public, r.Query) {
			name, err := inHeader(r, "X-Twilio-Signature", "", base64.StdEncoding.DecodeString, sha1.New, secrets, []byte(address), fields)
			if err == nil {
				return Verified{ID: idOf(r.Header, "I-Twilio-Idempotency-Token"), Key: name}, nil
			}
			refused = err
		}
		return Verified{}, refused
	}
}
