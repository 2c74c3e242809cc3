package admission

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/filter"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	minTypeSegments = 2

	qosAtLeastOnce         = "AT_LEAST_ONCE"
	qosAtMostOnce          = "AT_MOST_ONCE"
	authTypeOAuth2         = "oauth2"
	grantClientCredentials = "client_credentials"
)

// The details of the errors. Users and tools search for these texts.
const (
	detailEmpty          = "must not be empty"
	detailNotURI         = "must be valid as per RFC 3986"
	detailTypeMatching   = "must be a valid TypeMatching value exact or standard"
	detailDuplicateTypes = "must not have duplicate types"
	detailEmptyType      = "must not be of length zero"
	detailSegments       = "must have minimum 2 segments"
	detailTypePrefix     = "must not have " + routing.OldPrefix + " as type prefix"
	detailMaxInFlight    = eventingv1alpha2.ConfigMaxInFlight + " must be a stringified int value"
	detailQoS            = "must be a valid QoS value " + qosAtLeastOnce + " or " + qosAtMostOnce
	detailAuthType       = "must be a valid Auth Type value " + authTypeOAuth2
	detailGrantType      = "must be a valid Grant Type value " + grantClientCredentials
)

// Subscription returns all problems of a Subscription, in the order of its fields. It does not check whether the
// Service of the sink exists.
func Subscription(sub *eventingv1alpha2.Subscription, policy routing.Policy) field.ErrorList {
	spec := field.NewPath("spec")
	exact := sub.Spec.TypeMatching == eventingv1alpha2.TypeMatchingExact
	return slices.Concat(
		validateTypeMatching(spec.Child("typeMatching"), sub.Spec.TypeMatching),
		validateSource(spec.Child("source"), sub.Spec.Source, exact),
		validateTypes(spec.Child("types"), sub.Spec.Types, exact),
		validateConfig(spec.Child("config"), sub.Spec.Config),
		validateSink(spec.Child("sink"), sub, policy),
		validateFilter(spec.Child("filter"), sub.Spec.Filter),
		validateDeadLetter(spec.Child("delivery", "deadLetter", "sink"), sub, policy),
	)
}

func validateTypeMatching(path *field.Path, matching eventingv1alpha2.TypeMatching) field.ErrorList {
	switch matching {
	case eventingv1alpha2.TypeMatchingExact, eventingv1alpha2.TypeMatchingStandard:
		return nil
	default:
		return invalid(path, string(matching), detailTypeMatching)
	}
}

func validateSource(path *field.Path, source string, exact bool) field.ErrorList {
	if source == "" {
		if exact {
			return nil
		}
		return invalid(path, source, detailEmpty)
	}
	if _, err := url.Parse(source); err != nil {
		return invalid(path, source, detailNotURI)
	}
	return nil
}

func validateTypes(path *field.Path, eventTypes []string, exact bool) field.ErrorList {
	if len(eventTypes) == 0 {
		return invalid(path, "", detailEmpty)
	}
	var errs field.ErrorList
	if twice := duplicates(eventTypes); len(twice) > 0 {
		errs = invalid(path, strings.Join(twice, ","), detailDuplicateTypes)
	}
	for _, eventType := range eventTypes {
		if detail := typeDetail(eventType, exact); detail != "" {
			return append(errs, field.Invalid(path, eventType, detail))
		}
	}
	return errs
}

// typeDetail returns the problem of one event type, or an empty string.
func typeDetail(eventType string, exact bool) string {
	switch {
	case eventType == "":
		return detailEmptyType
	case strings.Count(eventType, ".")+1 < minTypeSegments:
		return detailSegments
	case !exact && strings.HasPrefix(eventType, routing.OldPrefix):
		return detailTypePrefix
	default:
		return ""
	}
}

// duplicates returns each value that occurs more than once, once.
func duplicates(values []string) []string {
	count := make(map[string]int, len(values))
	var found []string
	for _, value := range values {
		count[value]++
		if count[value] == 2 {
			found = append(found, value)
		}
	}
	return found
}

func validateConfig(path *field.Path, config map[string]string) field.ErrorList {
	rules := []struct {
		key, detail string
		ok          func(string) bool
	}{
		{eventingv1alpha2.ConfigMaxInFlight, detailMaxInFlight, isInt},
		{eventingv1alpha2.ConfigQoS, detailQoS, isQoS},
		{eventingv1alpha2.ConfigWebhookType, detailAuthType, equals(authTypeOAuth2)},
		{eventingv1alpha2.ConfigGrantType, detailGrantType, equals(grantClientCredentials)},
	}
	var errs field.ErrorList
	for _, rule := range rules {
		if value, given := config[rule.key]; given && !rule.ok(value) {
			errs = append(errs, field.Invalid(path, value, rule.detail))
		}
	}
	return errs
}

func isInt(value string) bool {
	_, err := strconv.Atoi(value)
	return err == nil
}

func isQoS(value string) bool {
	value = strings.ReplaceAll(value, "-", "_")
	return value == qosAtLeastOnce || value == qosAtMostOnce
}

func equals(want string) func(string) bool {
	return func(value string) bool { return value == want }
}

func validateSink(path *field.Path, sub *eventingv1alpha2.Subscription, policy routing.Policy) field.ErrorList {
	var problem *routing.SinkError
	switch err := routing.CheckSink(sub.Spec.Sink, sub.Namespace, policy); {
	case !errors.As(err, &problem):
		return nil
	case problem.OtherNamespace:
		return invalid(field.NewPath("metadata", "namespace"), sub.Namespace, problem.Detail)
	default:
		return invalid(path, withoutPassword(sub.Spec.Sink), problem.Detail)
	}
}

// validateDeadLetter applies the rules of spec.sink. It checks the namespace itself, because the shared check would
// report the error at spec.sink.
func validateDeadLetter(path *field.Path, sub *eventingv1alpha2.Subscription, policy routing.Policy) field.ErrorList {
	sink, ok := routing.DeadLetterSink(sub)
	if !ok {
		return nil
	}
	problem, ok := errors.AsType[*routing.SinkError](routing.CheckSink(sink, sub.Namespace, policy))
	if !ok {
		return nil
	}
	return invalid(path, withoutPassword(sink), problem.Detail)
}

func withoutPassword(sink string) string {
	parsed, err := url.Parse(sink)
	if err != nil || parsed.User == nil {
		return sink
	}
	return parsed.Redacted()
}

// validateFilter reports the path within the filter in the detail.
func validateFilter(path *field.Path, spec *eventingv1alpha2.Filter) field.ErrorList {
	if spec == nil {
		return nil
	}
	if _, err := filter.Compile(spec); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return nil
}

func invalid(path *field.Path, value, detail string) field.ErrorList {
	return field.ErrorList{field.Invalid(path, value, detail)}
}
