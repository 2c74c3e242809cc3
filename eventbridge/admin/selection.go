package admin

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/internal/failure"
)

// Validate refuses names that no Subscription can have, and reasons that no dead letter has.
func (s Selection) Validate() error {
	var errs []error
	if s.Namespace != "" && len(validation.IsDNS1123Label(s.Namespace)) > 0 {
		errs = append(errs, errors.New("namespace: it is not the name of a namespace"))
	}
	if s.Subscription != "" && len(validation.IsDNS1123Subdomain(s.Subscription)) > 0 {
		errs = append(errs, errors.New("subscription: it is not the name of a Subscription"))
	}
	if s.Subscription != "" && s.Namespace == "" {
		errs = append(errs, errors.New("subscription: say its namespace too"))
	}
	if s.Reason != "" {
		if _, err := failure.ParseDeadLetter(string(s.Reason)); err != nil {
			errs = append(errs, fmt.Errorf("reason: %w", err))
		}
	}
	return errors.Join(errs...)
}
