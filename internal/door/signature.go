package door

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio signs with it; as an HMAC it is not broken
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/fips"
)

const (
	// mostSignatures bounds the signatures of a request, each of which is compared with that of each key.
	mostSignatures = 8
	// mostID bounds the id of a delivery.
	mostID = 256

	defaultTolerance              = 5 * time.Minute
	minTolerance                  = 30 * time.Second
	maxTolerance                  = 15 * time.Minute
	leastStandard                 = 24
	mostStandard                  = 64
	leastApprovedKey              = 14 // bytes of an HMAC's key in FIPS 140-3's strict mode
	standardPrefix                = "whsec_"
	standardPublic                = "whpk_"
	bodyField, timeField, idField = "{body}", "{timestamp}", "{id}"
)

// secret is a key of a Door.
type secret struct {
	name string
	key  []byte
	// public is set instead of key for signatures by a private one, and private for making those.
	public  ed25519.PublicKey
	private ed25519.PrivateKey
}

// reader reads the text of a Secret as a scheme does.
type reader func(text []byte) (secret, error)

func asText(text []byte) (secret, error) { return secret{key: text}, nil }

// asStandard reads a key of Standard Webhooks: base64, whose prefix says what it is.
func asStandard(text []byte) (secret, error) {
	content, public := strings.CutPrefix(string(text), standardPublic)
	content = strings.TrimPrefix(content, standardPrefix)
	key, err := base64.StdEncoding.DecodeString(content)
	switch {
	case public && err == nil && len(key) == ed25519.PublicKeySize:
		return secret{public: key}, nil
	case public || err != nil || len(key) < leastStandard || len(key) > mostStandard:
		return secret{}, fmt.Errorf("must be %s and the base64 of %d to %d bytes, or %s and that of a public key of ed25519",
			standardPrefix, leastStandard, mostStandard, standardPublic)
	}
	return secret{key: key}, nil
}

// readSecrets reads the keys of a Secret, which users often write with a line break at the end.
func readSecrets(keys *Keys, read reader) ([]secret, error) {
	var secrets []secret
	for _, each := range []struct {
		name string
		text []byte
	}{{KeyCurrent, keys.Current}, {KeyPrevious, keys.Previous}} {
		text := bytes.TrimRight(each.text, "\r\n")
		if len(text) == 0 {
			continue
		}
		found, err := read(text)
		if err == nil && fips.Running().Enforced && found.key != nil && len(found.key) < leastApprovedKey {
			err = fmt.Errorf("must have at least %d bytes in the strict mode of FIPS 140-3", leastApprovedKey)
		}
		if err != nil {
			return nil, fmt.Errorf("key %s of the Secret %w", each.name, err)
		}
		found.name = each.name
		secrets = append(secrets, found)
	}
	return secrets, nil
}

func secretsOf(keys *Keys, read reader) []secret {
	secrets, _ := readSecrets(keys, read)
	return secrets
}

// fits returns the name of the key by which one of the signatures is. It tries all, so that the time tells nothing.
func fits(algorithm func() hash.Hash, secrets []secret, signatures [][]byte, message ...[]byte) (string, bool) {
	found := ""
	for _, each := range secrets {
		if each.public != nil {
			continue
		}
		mac := hmac.New(algorithm, each.key)
		for _, part := range message {
			_, _ = mac.Write(part)
		}
		sum := mac.Sum(nil)
		for _, signature := range signatures {
			if hmac.Equal(sum, signature) && found == "" {
				found = each.name
			}
		}
	}
	return found, found != ""
}

// verifier verifies requests of a scheme, with what else the scheme says of them.
type verifier struct {
	verify    func(r *Request, at *stamp) (Verified, error)
	defaults  func(r *Request, v *Verified) attributes
	challenge func(r *Request) []byte // nil: there is none
	// uniqueBodies is true where ids are not signed.
	uniqueBodies bool
}

// schemes make the verifiers of all schemes but HMAC.
var schemes = map[v1alpha1.DoorScheme]func(secrets []secret, keys *Keys, spec *v1alpha1.DoorWebhook) verifier{
	v1alpha1.SchemeStandardWebhooks: func(secrets []secret, _ *Keys, _ *v1alpha1.DoorWebhook) verifier {
		return verifier{verify: standard(secrets), defaults: standardDefaults}
	},
	v1alpha1.SchemeGitHub: func(secrets []secret, _ *Keys, _ *v1alpha1.DoorWebhook) verifier {
		return verifier{verify: github(secrets), defaults: githubDefaults, uniqueBodies: true}
	},
	v1alpha1.SchemeGitLab: func(secrets []secret, keys *Keys, _ *v1alpha1.DoorWebhook) verifier {
		return verifier{verify: gitlab(secrets, keys), defaults: gitlabDefaults}
	},
	v1alpha1.SchemeStripe: func(secrets []secret, _ *Keys, _ *v1alpha1.DoorWebhook) verifier {
		return verifier{verify: stripe(secrets), defaults: stripeDefaults}
	},
	v1alpha1.SchemeSlack: func(secrets []secret, _ *Keys, _ *v1alpha1.DoorWebhook) verifier {
		return verifier{verify: slack(secrets), defaults: slackDefaults, challenge: slackChallenge}
	},
	v1alpha1.SchemeShopify: func(secrets []secret, _ *Keys, _ *v1alpha1.DoorWebhook) verifier {
		return verifier{verify: shopify(secrets), defaults: shopifyDefaults, uniqueBodies: true}
	},
	v1alpha1.SchemeTwilio: func(secrets []secret, _ *Keys, spec *v1alpha1.DoorWebhook) verifier {
		return verifier{verify: twilio(secrets, spec.URL), defaults: twilioDefaults}
	},
}

// signed compiles a webhook.
func (c *Door) signed(spec *v1alpha1.DoorWebhook, keys *Keys) error {
	tolerance, err := toleranceOf(spec.Tolerance)
	if err != nil {
		return err
	}
	if spec.Scheme == v1alpha1.SchemeTwilio && fips.Running().Enforced {
		return errors.New("spec.webhook.scheme: Twilio signs with SHA-1, which the strict mode of FIPS 140-3 has not")
	}
	read := asText
	if spec.Scheme == v1alpha1.SchemeStandardWebhooks {
		read = asStandard
	}
	secrets, err := readSecrets(keys, read)
	if err != nil {
		return fmt.Errorf("spec.webhook.secretName: %w", err)
	}
	var by verifier
	if spec.Scheme == v1alpha1.SchemeHMAC {
		by.defaults = customDefaults
		by.verify, err = custom(secrets, spec.HMAC)
	} else if compile := schemes[spec.Scheme]; compile != nil {
		by = compile(secrets, keys, spec)
	} else {
		err = fmt.Errorf("spec.webhook.scheme: %.32q is unknown", spec.Scheme)
	}
	if err != nil {
		return err
	}
	c.defaults, c.UniqueBodies = by.defaults, by.uniqueBodies
	if by.challenge != nil {
		c.challenge = by.challenge
	}
	c.verify = func(r *Request, now time.Time) (Verified, error) { return by.verify(r, &stamp{now, tolerance}) }
	return nil
}

func toleranceOf(text v1alpha1.Duration) (time.Duration, error) {
	if text == "" {
		return defaultTolerance, nil
	}
	tolerance, err := time.ParseDuration(string(text))
	if err != nil || tolerance < minTolerance || tolerance > maxTolerance {
		return 0, fmt.Errorf("spec.webhook.tolerance: must be from %s to %s, is %s", minTolerance, maxTolerance, text)
	}
	return tolerance, nil
}

// stamp checks signed times.
type stamp struct {
	now       time.Time
	tolerance time.Duration
}

// read returns a signed time in seconds since 1970.
func (s *stamp) read(text string) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text != strconv.FormatInt(seconds, 10) {
		return time.Time{}, ErrMalformed
	}
	at := time.Unix(seconds, 0).UTC()
	if at.Before(s.now.Add(-s.tolerance)) || at.After(s.now.Add(s.tolerance)) {
		return time.Time{}, ErrTime
	}
	return at, nil
}

// single returns a header that comes once. Of two it is unknown which one the provider sent.
func single(header http.Header, name string) (string, error) {
	switch values := header.Values(name); len(values) {
	case 0:
		return "", ErrNoSignature
	case 1:
		return values[0], nil
	default:
		return "", ErrMalformed
	}
}

// optional is single for a header that may be missing.
func optional(header http.Header, name string) string {
	value, _ := single(header, name)
	return value
}

// idOf returns the id of a delivery in a header, if it is usable.
func idOf(header http.Header, names ...string) string {
	for _, name := range names {
		if id := optional(header, name); id != "" && len(id) <= mostID {
			return id
		}
	}
	return ""
}

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

// signedBy returns the name of the public key of whose private one a signature is.
func signedBy(secrets []secret, signatures [][]byte, message []byte) string {
	for _, each := range secrets {
		for _, signature := range signatures {
			if each.public != nil && ed25519.Verify(each.public, message, signature) {
				return each.name
			}
		}
	}
	return ""
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

// equals compares a text with each key in constant time.
func equals(secrets []secret, text string) (string, bool) {
	found := ""
	given := sha256.Sum256([]byte(text))
	for _, each := range secrets {
		want := sha256.Sum256(each.key)
		if subtle.ConstantTimeCompare(given[:], want[:]) == 1 && found == "" {
			found = each.name
		}
	}
	return found, found != ""
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

// custom compiles what hmac describes.
func custom(secrets []secret, spec *v1alpha1.DoorHMAC) (func(*Request, *stamp) (Verified, error), error) {
	before, signsTime, signsID, err := payloadOf(spec)
	if err != nil {
		return nil, err
	}
	algorithm, decode := sha256.New, hex.DecodeString
	if spec.Algorithm == "SHA512" {
		algorithm = sha512.New
	}
	if spec.Encoding == "Base64" {
		decode = base64.StdEncoding.DecodeString
	}
	return func(r *Request, at *stamp) (Verified, error) {
		var v Verified
		sent := ""
		if spec.TimestampHeader != "" {
			if sent, err = single(r.Header, spec.TimestampHeader); err != nil {
				return Verified{}, err
			}
			signedAt, err := at.read(sent)
			if err != nil {
				return Verified{}, err
			}
			if signsTime {
				v.Time = signedAt
			}
		}
		if spec.IDHeader != "" {
			v.ID = idOf(r.Header, spec.IDHeader)
			if signsID && v.ID == "" {
				return Verified{}, ErrMalformed
			}
		}
		head := strings.NewReplacer(timeField, sent, idField, v.ID).Replace(before)
		v.Key, err = inHeader(r, spec.Header, spec.Prefix, decode, algorithm, secrets, []byte(head), r.Body)
		return v, err
	}, nil
}

// payloadOf returns what is signed before the body.
func payloadOf(spec *v1alpha1.DoorHMAC) (before string, signsTime, signsID bool, err error) {
	payload := spec.Payload
	if payload == "" {
		payload = bodyField
		if spec.TimestampHeader != "" {
			payload = timeField + "." + bodyField
		}
	}
	before, ok := strings.CutSuffix(payload, bodyField)
	signsTime, signsID = strings.Contains(before, timeField), strings.Contains(before, idField)
	switch {
	case !ok || strings.Contains(before, bodyField):
		err = fmt.Errorf("spec.webhook.hmac.payload: must end with %s and have it once", bodyField)
	case signsTime && spec.TimestampHeader == "":
		err = fmt.Errorf("spec.webhook.hmac.payload: %s needs timestampHeader", timeField)
	case spec.TimestampHeader != "" && !signsTime:
		err = fmt.Errorf("spec.webhook.hmac.payload: has no %s, so that whoever repeats a request could change its time; sign it or remove timestampHeader", timeField)
	case signsID && spec.IDHeader == "":
		err = fmt.Errorf("spec.webhook.hmac.payload: %s needs idHeader", idField)
	}
	return before, signsTime, signsID, err
}
