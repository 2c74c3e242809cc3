package apirule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// Exposure is what an APIRule amounts to.
type Exposure struct {
	APIRule    types.NamespacedName
	UID        types.UID
	Generation int64
	// Gateway is the one that spec.gateway names.
	Gateway types.NamespacedName
	// Host of requests, perhaps with a wildcard. Empty: nothing is served, as Problems say.
	Host string
	// CORS is nil without a policy.
	CORS *v2.CORSPolicy
	// Rules are in the order of the spec.
	Rules []Rule
	// Problems are all that is wrong, those of single rules too.
	Problems Problems
}

// Rule is one of an Exposure.
type Rule struct {
	// Spec is the rule as it was written.
	Spec *v2.Rule
	// Backend is where its requests go. A closed rule has none, and answers with 503.
	Backend Backend
	Closed  bool
	// Timeout is how long an answer may take, waiting for a pod included.
	Timeout time.Duration
}

// Backend is a port of a Service.
type Backend struct {
	Service types.NamespacedName
	Port    int32
	// Address is the cluster IP, which distinguishes a recreated Service from the one before. Requests go to pods.
	Address string
	// Function says that Service is the name of a Function, which may sleep.
	Function bool
}

// Fingerprint is the same for Exposures that are served alike.
func (e *Exposure) Fingerprint() (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode APIRule %s: %w", e.APIRule, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}
