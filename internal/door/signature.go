package door

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
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
