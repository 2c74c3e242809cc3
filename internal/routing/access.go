package routing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrNotAllowed means that the operator's access rules do not allow the subscription or the publication.
var ErrNotAllowed = errors.New("not allowed")

// DefaultAudience is the default audience of publishers' tokens.
const DefaultAudience = "rouse-eventbridge"

// Access holds the rules of who may subscribe to and publish which events. The zero value allows both to everyone, as
// Kyma does. A part that is set allows only the events that one of its rules covers.
type Access struct {
	Subscribe *SubscribeAccess `json:"subscribe,omitempty"`
	Publish   *PublishAccess   `json:"publish,omitempty"`
}

// SubscribeAccess holds the rules for Subscriptions.
type SubscribeAccess struct {
	Rules []SubscribeRule `json:"rules"`
}

// SubscribeRule allows Subscriptions in namespaces to receive events. "*" is every namespace.
type SubscribeRule struct {
	Namespaces []string `json:"namespaces"`
	EventRule
}

// PublishAccess holds the rules for publishers.
type PublishAccess struct {
	Audience string        `json:"audience,omitempty"`
	Rules    []PublishRule `json:"rules"`
}

// PublishRule allows ServiceAccounts to publish events: "namespace/name", or "namespace/*" for all ServiceAccounts of a
// namespace and the replies of its sinks.
type PublishRule struct {
	ServiceAccounts []string `json:"serviceAccounts"`
	EventRule
}

// EventRule selects events by source and type. Both are compared in the form that they have in subjects, so that no
// spelling bypasses a rule. A source "*" is every source; in a type, a segment "*" is any one segment and ">" at the
// end one or more. Empty lists select everything.
type EventRule struct {
	Sources []string `json:"sources,omitempty"`
	Types   []string `json:"types,omitempty"`
}

// covers reports whether the rule allows all events of a subject, which may have wildcards.
func (r EventRule) covers(subject string) bool {
	for _, source := range orAll(r.Sources, "*") {
		for _, eventType := range orAll(r.Types, ">") {
			if covers(SubjectPrefix+"."+cleanSourcePattern(source)+"."+cleanTypePattern(eventType), subject) {
				return true
			}
		}
	}
	return false
}

func orAll(list []string, all string) []string {
	if len(list) == 0 {
		return []string{all}
	}
	return list
}

func cleanSourcePattern(pattern string) string {
	if pattern == "*" {
		return pattern
	}
	return CleanSource(pattern)
}

func cleanTypePattern(pattern string) string {
	segments := strings.Split(pattern, ".")
	for i, segment := range segments {
		if segment != "*" && segment != ">" {
			segments[i] = CleanType(segment)
		}
	}
	return strings.Join(segments, ".")
}

// MaySubscribe returns an ErrNotAllowed when a namespace may not receive all events of a subject.
func (a *Access) MaySubscribe(namespace, subject string) error {
	if a.Subscribe == nil {
		return nil
	}
	for _, rule := range a.Subscribe.Rules {
		for _, allowed := range rule.Namespaces {
			if (allowed == "*" || allowed == namespace) && rule.covers(subject) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: no rule of access.subscribe lets namespace %q have all events of the subject %q; "+
		"ask for fewer, or the operator of the cluster for a rule", ErrNotAllowed, namespace, subject)
}

// MayPublish returns an ErrNotAllowed when an account may not publish an event. An empty name means a reply of a sink
// in the namespace. The subject of an event in Kyma's first format does not contain its source; then both have to be
// allowed, and so has oldType, under which the event is stored as well, unless it is empty.
func (a *Access) MayPublish(namespace, name, source, eventType, oldType string) error {
	if a.Publish == nil {
		return nil
	}
	subjects := []string{Subject(source, eventType, false)}
	if IsOldType(eventType) {
		clean, err := CleanOldType(eventType)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotAllowed, err)
		}
		subjects = append(subjects, SubjectPrefix+"."+clean)
	}
	if oldType != "" {
		subjects = append(subjects, SubjectPrefix+"."+oldType)
	}
	for _, subject := range subjects {
		if !a.Publish.allows(namespace, name, subject) {
			return fmt.Errorf("%w: no rule of access.publish lets the ServiceAccount %s publish events of source %q and type %q, "+
				"subject %q; ask the operator of the cluster for a rule", ErrNotAllowed, shownAccount(namespace, name),
				clip(source), clip(eventType), clip(subject))
		}
	}
	return nil
}

func (p *PublishAccess) allows(namespace, name, subject string) bool {
	for _, rule := range p.Rules {
		for _, account := range rule.ServiceAccounts {
			if isAccount(account, namespace, name) && rule.covers(subject) {
				return true
			}
		}
	}
	return false
}

func isAccount(pattern, namespace, name string) bool {
	allowedNamespace, allowedName, _ := strings.Cut(pattern, "/")
	return allowedNamespace == namespace && (allowedName == "*" || allowedName == name && name != "")
}

func shownAccount(namespace, name string) string {
	if name == "" {
		return namespace + "/*, as which sinks reply,"
	}
	return namespace + "/" + name
}

func clip(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// String implements pflag.Value.
func (a *Access) String() string {
	if a == nil || *a == (Access{}) {
		return ""
	}
	text, _ := json.Marshal(a) // its fields can always be encoded
	return string(text)
}

// Type implements pflag.Value.
func (a *Access) Type() string { return "json" }

// Set implements pflag.Value. A misspelt member is an error, because a rule without it would allow more.
func (a *Access) Set(text string) error {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	var read Access
	if err := decoder.Decode(&read); err != nil {
		return err
	}
	if read.Publish != nil && read.Publish.Audience == "" {
		read.Publish.Audience = DefaultAudience
	}
	if err := read.check(); err != nil {
		return err
	}
	*a = read
	return nil
}

// check reports every rule that cannot be intended.
func (a *Access) check() error {
	var errs []error
	if a.Subscribe != nil {
		for i, rule := range a.Subscribe.Rules {
			place := fmt.Sprintf("subscribe.rules[%d]", i)
			if len(rule.Namespaces) == 0 {
				errs = append(errs, fmt.Errorf(`%s.namespaces: name one, or "*"`, place))
			}
			errs = append(errs, rule.check(place))
		}
	}
	if a.Publish != nil {
		for i, rule := range a.Publish.Rules {
			place := fmt.Sprintf("publish.rules[%d]", i)
			if len(rule.ServiceAccounts) == 0 {
				errs = append(errs, fmt.Errorf("%s.serviceAccounts: name one, as namespace/name or namespace/*", place))
			}
			for _, account := range rule.ServiceAccounts {
				namespace, name, _ := strings.Cut(account, "/")
				if len(validation.IsDNS1123Label(namespace)) > 0 || name != "*" && len(validation.IsDNS1123Subdomain(name)) > 0 {
					errs = append(errs, fmt.Errorf("%s.serviceAccounts: %q must be namespace/name or namespace/*", place, account))
				}
			}
			errs = append(errs, rule.check(place))
		}
	}
	return errors.Join(errs...)
}

func (r EventRule) check(place string) error {
	var errs []error
	for _, source := range r.Sources {
		if cleanSourcePattern(source) == "" {
			errs = append(errs, fmt.Errorf(`%s.sources: %q contains no character that a subject can have; write "*" for every source`, place, source))
		}
	}
	for _, eventType := range r.Types {
		if err := checkFilter(cleanTypePattern(eventType)); err != nil {
			errs = append(errs, fmt.Errorf("%s.types: %w", place, err))
		}
	}
	return errors.Join(errs...)
}
