package door

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

// vector is a request that its provider, or its provider's library, has signed.
type vector struct {
	spec   v1alpha1.DoorWebhook
	secret string
	header http.Header
	query  string
	body   string
	at     int64 // when it was signed, where that is signed too
	id     string
	is     string // type of the event
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"

	slackCommand = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
		"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands" +
		"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	slackSigned   = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
	standardKey   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	twilioAddress = "https://mycompany.com/myapp.php?foo=1&bar=2"
)

var vectors = map[string]vector{
	"Standard Webhooks, from its specification": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeStandardWebhooks},
		standardKey,
		header("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp", "1614265330", "Content-Type", jsonType,
			"Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
		"", `{"test": 2432232314}`, 1614265330, "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook",
	},
	"Standard Webhooks, by standardwebhooks 1.1.1 of npm": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeStandardWebhooks},
		standardKey,
		header("Webhook-Id", "msg_1", "Webhook-Timestamp", "1792000000", "Content-Type", jsonType,
			"Webhook-Signature", "v0,bm9uZQ== v1,AAAA v1,cQkU2gsaTzNPCbOpL2wnxPIp84+9QnOHYT9/XsocUkU="),
		"", `{"type":"invoice.paid"}`, 1792000000, "msg_1", "invoice.paid",
	},
	"GitHub, from its documentation": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitHub},
		"It's a Secret to Everybody",
		header("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
			"X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-GitHub-Event", "issues", "Content-Type", "text/plain"),
		"", "Hello, World!", 0, "72d3162e-cc78-11e3-81ab-4c9367dc0958", "github.issues",
	},
	"GitHub, by @octokit/webhooks 14.2.0": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitHub},
		"s3cret-of-github",
		header("X-Hub-Signature-256", "sha256=73e804bb9a4bdbb09348a629c84b0711c308e72fe8b8422ca8d22726e7ebddba",
			"X-GitHub-Delivery", "1", "X-GitHub-Event", "pull_request", "Content-Type", jsonType),
		"", `{"action":"opened"}`, 0, "1", "github.pull_request",
	},
	"Stripe, by stripe 23.1.0 of npm": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeStripe},
		"whsec_test_secret",
		header("Stripe-Signature", "t=1792000000,v1=d387bd6db628e0b1e91777cb3812793404421adcb1213253bd53d1bfe515763a,v0=6ffb", "Content-Type", jsonType),
		"", `{"id":"evt_1","object":"event","type":"invoice.paid","data":{"object":{"id":"in_1"}}}`, 1792000000, "evt_1", "stripe.invoice.paid",
	},
	"Slack, from its documentation": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeSlack},
		"8f742231b10e8888abcd99yyyzzz85a5",
		header("X-Slack-Signature", slackSigned, "X-Slack-Request-Timestamp", "1531420618", "Content-Type", formType),
		"", slackCommand, 1531420618, HashOf([]byte(slackCommand)), "slack.command",
	},
	"Twilio, from its documentation": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeTwilio, URL: twilioAddress},
		"12345",
		header("X-Twilio-Signature", "0/KCTR6DLpKmkAf8muzZqo1nDgQ=", "Content-Type", formType, "I-Twilio-Idempotency-Token", "token-1"),
		"foo=1&bar=2", "CallSid=CA1234567890ABCDE&Caller=%2B12349013030&Digits=1234&From=%2B12349013030&To=%2B18005551212", 0, "token-1", "twilio.call",
	},
	"Twilio, a form by twilio 6.2.0 of npm": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeTwilio, URL: "https://example.com:443/sms"},
		"12345",
		header("X-Twilio-Signature", "FrWMiK0qGwKZN4rMNMOyHyE7eCQ=", "Content-Type", formType, "I-Twilio-Idempotency-Token", "token-1"),
		"a=b", "MessageSid=SM1&Body=Hello&To=%2B1&To=%2B0", 0, "token-1", "twilio.message",
	},
	"Twilio, JSON by twilio 6.2.0 of npm": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeTwilio, URL: "https://example.com/sms"},
		"12345",
		header("X-Twilio-Signature", "MB1Q1GJ4gu40D173xPip/Jl6W10=", "Content-Type", jsonType, "I-Twilio-Idempotency-Token", "token-1"),
		"bodySHA256=015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862", `{"a":1}`, 0, "token-1", "twilio.event",
	},
	"Shopify, as its documentation describes": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeShopify},
		"hush",
		header("X-Shopify-Hmac-Sha256", "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I=", "X-Shopify-Event-Id", "e1", "X-Shopify-Topic", "orders/create",
			"X-Shopify-Shop-Domain", "shop.example", "Content-Type", jsonType),
		"", `{"id":820982911946154508}`, 0, "e1", "shopify.orders.create",
	},
	"GitLab, the token of older versions": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitLab},
		"a-token",
		header("X-Gitlab-Token", "a-token", "Idempotency-Key", "i1", "X-Gitlab-Event", "Merge Request Hook", "Content-Type", jsonType),
		"", `{"project":{"path_with_namespace":"shop/orders"}}`, 0, "i1", "gitlab.merge-request",
	},
	"GitLab, signed as Standard Webhooks": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitLab},
		standardKey,
		header("Webhook-Id", "msg_1", "Webhook-Timestamp", "1792000000", "X-Gitlab-Event", "Push Hook", "Content-Type", jsonType,
			"Webhook-Signature", "v1,cQkU2gsaTzNPCbOpL2wnxPIp84+9QnOHYT9/XsocUkU="),
		"", `{"type":"invoice.paid"}`, 1792000000, "msg_1", "gitlab.push",
	},
	"an HMAC of a time, an id and the body": {
		v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeHMAC, HMAC: &v1alpha1.DoorHMAC{
			Header: "X-Sign", Prefix: "s=", Algorithm: "SHA512", Encoding: "Base64", TimestampHeader: "X-Time", IDHeader: "X-Id", Payload: "{id}/{timestamp}/{body}",
		}},
		"hush",
		header("X-Sign", "s=M3UR0Jytg/k7ZSbbWb0qn29imQci2FMp/x3pW65E2F3b01AWOXOLIxTsJ8EmUozeZ7ROKc3onZJ7GTIfOX4vaA==", "X-Time", "1792000000", "X-Id", "d1", "Content-Type", jsonType),
		"", `{"type":"paid"}`, 1792000000, "d1", "paid",
	},
}

// open compiles a Door whose Secret has a key.
func (v *vector) open(t *testing.T, keys Keys) *Door {
	t.Helper()
	d := &v1alpha1.Door{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hooks", UID: "u1"},
		Spec:       v1alpha1.DoorSpec{Webhook: &v.spec, Source: "outside"},
	}
	d.Spec.Webhook.SecretName = "keys"
	compiled, err := New(d, &keys)
	require.NoError(t, err)
	return compiled
}

func (v *vector) request() *Request {
	return &Request{Header: v.header.Clone(), Query: v.query, Body: []byte(v.body)}
}

func (v *vector) now() time.Time {
	if v.at == 0 {
		return time.Unix(1792000000, 0)
	}
	return time.Unix(v.at, 0).Add(time.Minute)
}

func TestARequestThatItsProviderSignedBecomesItsEvent(t *testing.T) {
	t.Parallel()
	for name, v := range vectors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opened := v.open(t, Keys{Current: []byte(v.secret + "\n")})
			verified, err := opened.Verify(v.request(), v.now())
			require.NoError(t, err)
			require.Equal(t, KeyCurrent, verified.Key)
			ev, drop, err := opened.Event(v.request(), &verified, v.now())
			require.NoError(t, err)
			require.False(t, drop)
			require.Equal(t, []string{v.id, "outside", v.is, "hooks", v.body}, []string{ev.ID, ev.Source, ev.Type, ev.Extension(ExtensionDoor), string(ev.Data)})
			if v.at != 0 {
				require.Equal(t, time.Unix(v.at, 0).UTC().Format(time.RFC3339Nano), ev.Time)
			}
		})
	}
}

func TestThePreviousKeyVerifiesToo(t *testing.T) {
	t.Parallel()
	for name, v := range vectors {
		if v.spec.Scheme == v1alpha1.SchemeGitLab || strings.Contains(name, "Standard") {
			continue // the other key has to be one of that form
		}
		verified, err := v.open(t, Keys{Current: []byte("another-secret"), Previous: []byte(v.secret)}).Verify(v.request(), v.now())
		require.NoError(t, err, name)
		require.Equal(t, KeyPrevious, verified.Key, name)
	}
	v := vectors["Standard Webhooks, from its specification"]
	verified, err := v.open(t, Keys{Current: []byte("whsec_" + strings.Repeat("A", 32)), Previous: []byte(v.secret)}).Verify(v.request(), v.now())
	require.NoError(t, err)
	require.Equal(t, KeyPrevious, verified.Key)
}

func flipped(text string) string {
	changed := []byte(text)
	changed[len(changed)/2] ^= 1
	return string(changed)
}

func TestAChangedRequestIsRefused(t *testing.T) {
	t.Parallel()
	for name, v := range vectors {
		opened := v.open(t, Keys{Current: []byte(v.secret)})
		refuse := func(what string, change func(*Request)) {
			r := v.request()
			change(r)
			_, err := opened.Verify(r, v.now())
			require.ErrorAs(t, err, new(RefusalError), "%s: %s", name, what)
		}
		if v.header.Get("X-Gitlab-Token") == "" { // which signs nothing
			refuse("body", func(r *Request) { r.Body[len(r.Body)/2] ^= 1 })
			refuse("more body", func(r *Request) { r.Body = append(r.Body, ' ') })
		}
		refuse("no headers", func(r *Request) { r.Header = http.Header{} })
		for _, signature := range []string{"Webhook-Signature", "X-Hub-Signature-256", "Stripe-Signature", "X-Slack-Signature", "X-Twilio-Signature", "X-Shopify-Hmac-Sha256", "X-Gitlab-Token", "X-Sign"} {
			value := v.header.Get(signature)
			if value == "" {
				continue
			}
			refuse("none", func(r *Request) { r.Header.Del(signature) })
			refuse("two", func(r *Request) { r.Header.Add(signature, value) })
			refuse("empty", func(r *Request) { r.Header.Set(signature, "") })
			refuse("nonsense", func(r *Request) { r.Header.Set(signature, "v1,!!! t=,v1=zz sha256=") })
			refuse("many", func(r *Request) { r.Header.Set(signature, strings.Repeat(value+" ", 9)+strings.Repeat(","+value, 20)) })
		}
		for _, signed := range []string{"Webhook-Id", "Webhook-Timestamp", "X-Slack-Request-Timestamp", "X-Time", "X-Id"} {
			value := v.header.Get(signed)
			if value == "" || v.header.Get("X-Gitlab-Token") != "" {
				continue
			}
			refuse(signed, func(r *Request) { r.Header.Set(signed, flipped(value)) })
			refuse("two of "+signed, func(r *Request) { r.Header.Add(signed, value) })
		}
		_, err := v.open(t, Keys{Current: []byte(otherKey(v.secret))}).Verify(v.request(), v.now())
		require.ErrorAs(t, err, new(RefusalError), name)
	}
}

// otherKey is another key of the same form.
func otherKey(secret string) string {
	if secret == standardKey {
		return "whsec_" + strings.Repeat("A", 32)
	}
	return secret + "x"
}

func TestASignedTimeCountsInBothDirections(t *testing.T) {
	t.Parallel()
	for name, v := range vectors {
		if v.at == 0 {
			continue
		}
		opened, signed := v.open(t, Keys{Current: []byte(v.secret)}), time.Unix(v.at, 0)
		for at, ok := range map[time.Duration]bool{-5*time.Minute - time.Second: false, -5 * time.Minute: true, 0: true, 5 * time.Minute: true, 5*time.Minute + time.Second: false} {
			_, err := opened.Verify(v.request(), signed.Add(at))
			if ok {
				require.NoError(t, err, "%s after %s", name, at)
			} else {
				require.Equal(t, ErrTime, err, "%s after %s", name, at)
			}
		}
	}
}

func TestStandardWebhooksOfAPrivateKeyAreVerifiedByItsPublicOne(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	v := vectors["Standard Webhooks, by standardwebhooks 1.1.1 of npm"]
	signature := ed25519.Sign(private, []byte("msg_1.1792000000."+v.body))
	v.header = v.header.Clone()
	v.header.Set("Webhook-Signature", "v1a,"+base64.StdEncoding.EncodeToString(signature))
	opened := v.open(t, Keys{Current: []byte("whpk_" + base64.StdEncoding.EncodeToString(public))})
	_, err = opened.Verify(v.request(), v.now())
	require.NoError(t, err)
	v.body += " "
	_, err = opened.Verify(v.request(), v.now())
	require.Equal(t, ErrSignature, err)
}

func TestADoorThatCannotBeNamesItsField(t *testing.T) {
	t.Parallel()
	keys := &Keys{Current: []byte("hush")}
	for says, change := range map[string]func(*v1alpha1.DoorSpec){
		"spec.webhook.tolerance": func(s *v1alpha1.DoorSpec) { s.Webhook.Tolerance = "1h" },
		"spec.path":              func(s *v1alpha1.DoorSpec) { s.Path = "/a//b" },
		"spec.types[0]":          func(s *v1alpha1.DoorSpec) { s.Types = []string{"a*b*"} },
		"whsec_":                 func(s *v1alpha1.DoorSpec) { s.Webhook.Scheme = v1alpha1.SchemeStandardWebhooks },
		"spec.webhook.event.type: line 1": func(s *v1alpha1.DoorSpec) {
			s.Webhook.Event.Type = "body.action"
		},
		"spec.webhook.event.drop: is of type string, not bool": func(s *v1alpha1.DoorSpec) { s.Webhook.Event.Drop = "'yes'" },
		"must end with {body}": func(s *v1alpha1.DoorSpec) {
			s.Webhook.Scheme, s.Webhook.HMAC = v1alpha1.SchemeHMAC, &v1alpha1.DoorHMAC{Header: "x", Payload: "{body}{timestamp}"}
		},
		"has no {timestamp}": func(s *v1alpha1.DoorSpec) {
			s.Webhook.Scheme, s.Webhook.HMAC = v1alpha1.SchemeHMAC, &v1alpha1.DoorHMAC{Header: "x", TimestampHeader: "y", Payload: "{body}"}
		},
		"spec.clientCertificates.ca": func(s *v1alpha1.DoorSpec) {
			s.Webhook, s.CloudEvents, s.ClientCertificates = nil, &v1alpha1.DoorCloudEvents{}, &v1alpha1.DoorClientCertificates{CA: "none"}
		},
	} {
		d := &v1alpha1.Door{Spec: v1alpha1.DoorSpec{Webhook: &v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitHub, SecretName: "keys"}}}
		change(&d.Spec)
		_, err := New(d, keys)
		require.ErrorContains(t, err, says)
	}
	_, err := New(&v1alpha1.Door{Spec: v1alpha1.DoorSpec{Webhook: &v1alpha1.DoorWebhook{Scheme: v1alpha1.SchemeGitHub, SecretName: "keys"}}}, &Keys{Previous: []byte("x")})
	require.ErrorIs(t, err, ErrNoSecret)
}

func FuzzNoRequestPanics(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.header.Get("Webhook-Signature")+v.header.Get("Stripe-Signature")+v.header.Get("X-Hub-Signature-256"), v.query, v.body)
	}
	var doors []*Door
	for _, v := range vectors {
		d := &v1alpha1.Door{Spec: v1alpha1.DoorSpec{Webhook: &v.spec}}
		compiled, err := New(d, &Keys{Current: []byte(v.secret)})
		require.NoError(f, err)
		doors = append(doors, compiled)
	}
	f.Fuzz(func(_ *testing.T, value, query, body string) {
		for _, name := range []string{"Content-Type", "X-Twilio-Signature"} {
			for _, d := range doors {
				r := &Request{Header: header(
					"Webhook-Id", value, "Webhook-Timestamp", value, "Webhook-Signature", value, "Stripe-Signature", value, "X-Hub-Signature-256", value,
					"X-Slack-Request-Timestamp", value, "X-Slack-Signature", value, "X-Shopify-Hmac-Sha256", value, "X-Sign", value, "X-Time", value, "X-Id", value,
				), Query: query, Body: []byte(body)}
				r.Header.Set(name, value)
				_, _ = d.Verify(r, time.Unix(1792000000, 0))
				_, _, _ = d.Event(r, &Verified{}, time.Unix(1792000000, 0))
				_ = d.Challenge(r)
			}
		}
	})
}
