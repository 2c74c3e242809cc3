package door

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/filter"
)

const (
	// ExtensionDoor is the extension with the name of the Door.
	ExtensionDoor = "rousedoor"

	mostType      = 128 // characters of a type
	mostSubject   = 512 // bytes of a subject
	defaultType   = "webhook"
	octets        = "application/octet-stream"
	jsonMediaType = "application/json"
)

// ErrType means that the Door takes no events of a type.
var ErrType = errors.New("the Door takes no events of this type")

// attributes are those that the scheme of a request gives its event.
type attributes struct{ id, eventType, subject string }

// Event returns the event of a verified request to a webhook; drop is true if it becomes none. An error is ErrType, one of package
// filter, or says what makes the event invalid.
func (c *Door) Event(r *Request, v *Verified, now time.Time) (ev *cloudevent.Event, drop bool, err error) {
	given := c.defaults(r, v)
	ev = &cloudevent.Event{
		ID: cmp.Or(v.ID, given.id, HashOf(r.Body)), Source: c.Source, Type: cleanType(cmp.Or(given.eventType, defaultType)),
		Subject: cleanSubject(given.subject), Time: timeOf(v, now), DataContentType: contentType(r.Header), Data: r.Body,
	}
	if drop, err = c.mapping.apply(r, ev); drop || err != nil {
		return nil, drop, err
	}
	ev.SetExtension(ExtensionDoor, c.Name.Name)
	if !c.Takes(ev.Type) {
		return nil, false, fmt.Errorf("%w: %s", ErrType, ev.Type)
	}
	if len(ev.Data) > 0 && ev.DataContentType == jsonMediaType && !ev.CheckJSON() {
		ev.DataContentType = octets
	}
	return ev, false, errors.Join(ev.Validate(), ev.CheckText())
}

// HashOf returns the id of a delivery without one.
func HashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func timeOf(v *Verified, now time.Time) string {
	if v.Time.IsZero() {
		return now.UTC().Format(time.RFC3339Nano)
	}
	return v.Time.UTC().Format(time.RFC3339Nano)
}

// contentType returns the media type of a body as it was sent. Without one that can be read the data are octets.
func contentType(header http.Header) string {
	sent := optional(header, "Content-Type")
	media, _, err := mime.ParseMediaType(sent)
	switch {
	case err != nil || len(sent) > mostID:
		return octets
	case media == jsonMediaType:
		return media
	default:
		return sent
	}
}

// cleanType returns a type in lower case, with a dash for what no type may have and for what would be an empty segment.
func cleanType(text string) string {
	text = strings.ToLower(text)
	if len(text) > mostType {
		text = text[:mostType]
	}
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, text)
	segments := strings.Split(clean, ".")
	for i := range segments {
		segments[i] = cmp.Or(segments[i], "-")
	}
	return strings.Join(segments, ".")
}

func cleanSubject(text string) string {
	if len(text) > mostSubject {
		text = text[:mostSubject]
	}
	return strings.ToValidUTF8(text, "")
}

// mapping are the expressions of a webhook. Those that are nil change nothing.
type mapping struct {
	eventType, subject, id, time, data, drop *filter.Expression
}

func (m *mapping) compile(spec *v1alpha1.DoorEvent) error {
	var problems []error
	for _, each := range []struct {
		field, text string
		says        filter.Result
		into        **filter.Expression
	}{
		{"type", spec.Type, filter.Text, &m.eventType},
		{"subject", spec.Subject, filter.Text, &m.subject},
		{"id", spec.ID, filter.Text, &m.id},
		{"time", spec.Time, filter.Text, &m.time},
		{"data", spec.Data, filter.Anything, &m.data},
		{"drop", spec.Drop, filter.Truth, &m.drop},
	} {
		if each.text == "" {
			continue
		}
		compiled, err := filter.CompileExpression("spec.webhook.event."+each.field, each.text, each.says)
		*each.into = compiled
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (m *mapping) isEmpty() bool { return *m == mapping{} }

// apply changes the event as the mapping says.
func (m *mapping) apply(r *Request, ev *cloudevent.Event) (drop bool, err error) {
	if m.isEmpty() {
		return false, nil
	}
	before := *ev
	scope := filter.NewScope(&before, headersOf(r.Header))
	if m.drop != nil {
		if drop, err = scope.Truth(m.drop); drop || err != nil {
			return drop, err
		}
	}
	for _, each := range []struct {
		expression *filter.Expression
		into       *string
		clean      func(string) string
	}{
		{m.eventType, &ev.Type, cleanType}, {m.subject, &ev.Subject, cleanSubject}, {m.id, &ev.ID, strings.TrimSpace}, {m.time, &ev.Time, strings.TrimSpace},
	} {
		if each.expression == nil {
			continue
		}
		text, err := scope.Text(each.expression)
		if err != nil {
			return false, err
		}
		*each.into = each.clean(text)
	}
	if m.data != nil {
		if ev.Data, err = scope.JSON(m.data); err != nil {
			return false, err
		}
		ev.DataContentType = jsonMediaType
	}
	return false, nil
}

// secretHeaders are no business of an expression, whose result anyone who subscribes may read.
var secretHeaders = map[string]bool{"authorization": true, "cookie": true, "x-gitlab-token": true, "proxy-authorization": true}

// headersOf returns the headers of a request for expressions, of each the first.
func headersOf(header http.Header) map[string]string {
	known := make(map[string]string, len(header))
	for name, values := range header {
		if name = strings.ToLower(name); len(values) > 0 && !secretHeaders[name] {
			known[name] = values[0]
		}
	}
	return known
}

// read reads the members of a JSON object that a scheme needs. Other bodies have none.
func read[T any](body []byte) (found T) {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' && json.Unmarshal(body, &found) != nil {
		var none T
		return none
	}
	return found
}

func standardDefaults(r *Request, _ *Verified) attributes {
	return attributes{id: idOf(r.Header, "Webhook-Id"), eventType: read[struct{ Type text }](r.Body).Type.value}
}

func githubDefaults(r *Request, _ *Verified) attributes {
	found := read[struct {
		Repository struct {
			Name text `json:"full_name"`
		}
	}](r.Body)
	return attributes{
		id: idOf(r.Header, "X-Github-Delivery"), eventType: joined("github", optional(r.Header, "X-Github-Event")), subject: found.Repository.Name.value,
	}
}

func gitlabDefaults(r *Request, _ *Verified) attributes {
	found := read[struct {
		Project struct {
			Path text `json:"path_with_namespace"`
		}
	}](r.Body)
	event := strings.TrimSuffix(strings.ToLower(optional(r.Header, "X-Gitlab-Event")), " hook")
	return attributes{
		id: idOf(r.Header, "Webhook-Id", "Idempotency-Key", "X-Gitlab-Event-Uuid"), eventType: joined("gitlab", event), subject: found.Project.Path.value,
	}
}

func stripeDefaults(r *Request, _ *Verified) attributes {
	found := read[struct {
		ID   text
		Type text
		Data struct{ Object struct{ ID text } }
	}](r.Body)
	return attributes{id: found.ID.value, eventType: joined("stripe", found.Type.value), subject: found.Data.Object.ID.value}
}

type slackBody struct {
	ID        text `json:"event_id"`
	Type      text
	Team      text `json:"team_id"`
	Challenge text
	Event     struct{ Type text }
}

func slackDefaults(r *Request, _ *Verified) attributes {
	if form, ok := formOf(r); ok && len(form) > 0 { // commands and interactions
		kind := "interaction"
		if form.Get("command") != "" {
			kind = "command"
		}
		return attributes{eventType: joined("slack", kind), subject: form.Get("team_id")}
	}
	found := read[slackBody](r.Body)
	return attributes{
		id: found.ID.value, eventType: joined("slack", cmp.Or(found.Event.Type.value, found.Type.value)), subject: found.Team.value,
	}
}

// slackChallenge returns what Slack wants to hear when a URL is entered.
func slackChallenge(r *Request) []byte {
	found := read[slackBody](r.Body)
	if found.Type.value != "url_verification" || found.Challenge.value == "" {
		return nil
	}
	return []byte(found.Challenge.value)
}

func shopifyDefaults(r *Request, _ *Verified) attributes {
	topic := strings.ReplaceAll(optional(r.Header, "X-Shopify-Topic"), "/", ".")
	return attributes{
		id: idOf(r.Header, "X-Shopify-Event-Id", "X-Shopify-Webhook-Id"), eventType: joined("shopify", topic), subject: optional(r.Header, "X-Shopify-Shop-Domain"),
	}
}

func twilioDefaults(r *Request, _ *Verified) attributes {
	form, _ := formOf(r)
	for _, each := range []struct{ field, kind string }{{"MessageSid", "message"}, {"CallSid", "call"}} {
		if subject := form.Get(each.field); subject != "" {
			kind := "twilio." + each.kind
			if status := cmp.Or(form.Get("MessageStatus"), form.Get("CallStatus")); status != "" {
				kind += "." + status
			}
			return attributes{eventType: kind, subject: subject}
		}
	}
	return attributes{eventType: joined("twilio", "event")}
}

func customDefaults(r *Request, _ *Verified) attributes {
	return attributes{eventType: read[struct{ Type text }](r.Body).Type.value}
}

// joined returns a type of a provider; without more than that it is the provider's webhook.
func joined(provider, name string) string {
	if name == "" {
		return provider + "." + defaultType
	}
	return provider + "." + name
}

// text is a string in JSON. Another value counts as if it were absent.
type text struct{ value string }

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &t.value)
	}
	return nil
}
