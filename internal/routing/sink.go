package routing

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrInvalidSink means that a sink is not the URL of a Service in the
// Subscription's namespace.
var ErrInvalidSink = errors.New("invalid sink")

// serviceDomain is what follows the name and the namespace of a Service.
const serviceDomain = "svc.cluster.local"

// parseSink finds the Service and the port that a sink stands for.
func parseSink(sink, namespace string) (types.NamespacedName, int32, error) {
	refuse := func(reason string) (types.NamespacedName, int32, error) {
		return types.NamespacedName{}, 0, fmt.Errorf("%w %q: %s", ErrInvalidSink, sink, reason)
	}
	parsed, err := url.ParseRequestURI(sink)
	if err != nil {
		return refuse("it is not a URL")
	}
	if parsed.Scheme != "http" && parsed.Scheme != "https" {
		return refuse("the scheme must be http or https")
	}
	labels := strings.SplitN(parsed.Hostname(), ".", 3)
	if len(labels) != 3 || labels[2] != serviceDomain {
		return refuse("the host must be <service>.<namespace>." + serviceDomain)
	}
	if len(validation.IsDNS1123Label(labels[0])) > 0 {
		return refuse("the host must begin with the name of a Service")
	}
	if labels[1] != namespace {
		return refuse("the Service must be in the Subscription's namespace")
	}
	port, err := sinkPort(parsed)
	if err != nil {
		return refuse(err.Error())
	}
	return types.NamespacedName{Namespace: namespace, Name: labels[0]}, port, nil
}

func sinkPort(sink *url.URL) (int32, error) {
	written := sink.Port()
	switch {
	case written == "" && sink.Scheme == "https":
		return 443, nil
	case written == "":
		return 80, nil
	}
	port, err := strconv.ParseUint(written, 10, 16)
	if err != nil || port == 0 {
		return 0, errors.New("the port must be between 1 and 65535")
	}
	return int32(port), nil
}
