package activator

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/activation"
)

// outcome is how a request ended, the label of its metric.
type outcome string

const (
	served     outcome = "served"
	timedOut   outcome = activation.RefusedTimeout
	overloaded outcome = activation.RefusedOverload
	broken     outcome = "broken"
	clientGone outcome = "client_gone"
	failed     outcome = "failed"
	unfinished outcome = "unfinished" // the body of the request did not reach its end
)

// refusal is why a request gets no answer of the Function's.
type refusal struct {
	outcome    outcome
	status     int
	retryAfter time.Duration
	text       string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) write(w http.ResponseWriter) {
	if r.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(r.retryAfter.Seconds())))
	}
	w.Header().Set(activation.HeaderRefused, string(r.outcome))
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, r.text, r.status)
}

// statusClientGone is in metrics alone: nobody reads it.
const statusClientGone = 499

func tooSlow(function types.NamespacedName, waited time.Duration, reason string) *refusal {
	if reason == "" {
		reason = "it is still starting"
	}
	return &refusal{
		timedOut, http.StatusServiceUnavailable, 5 * time.Second,
		fmt.Sprintf("Function %s has no pod that takes requests after %s: %s", function, waited.Round(time.Millisecond), reason),
	}
}

func cannotStart(function types.NamespacedName, reason string) *refusal {
	return &refusal{
		broken, http.StatusServiceUnavailable, 30 * time.Second,
		fmt.Sprintf("Function %s does not run: %s", function, reason),
	}
}

func tooMany(function types.NamespacedName, waiting int) *refusal {
	return &refusal{
		overloaded, http.StatusServiceUnavailable, time.Second,
		fmt.Sprintf("Function %s is starting, and %d requests wait for it already", function, waiting),
	}
}

func gone(err error) *refusal { return &refusal{clientGone, statusClientGone, 0, err.Error()} }

func didNotAnswer(function types.NamespacedName, err error) *refusal {
	return &refusal{failed, http.StatusBadGateway, 0, fmt.Sprintf("Function %s did not answer: %s", function, plain(err))}
}

// plain leaves the pod's address out of what a caller is told.
func plain(err error) string {
	if refused := forward.RefusedHead(err); refused != "" {
		return refused
	}
	var at *net.OpError
	if errors.As(err, &at) && at.Err != nil {
		return at.Err.Error()
	}
	return err.Error()
}
