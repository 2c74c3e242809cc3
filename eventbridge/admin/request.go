package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rouse-run/rouse/internal/failure"
)

const (
	maxBody      = 16 << 10
	defaultLimit = 100
	maxLimit     = 1000
)

// selectionBody is the body of a redrive or purge.
type selectionBody struct {
	Namespace    string `json:"namespace"`
	Subscription string `json:"subscription"`
	Reason       string `json:"reason"`
	Sequence     uint64 `json:"sequence"`
	All          bool   `json:"all"`
}

// selectionOf reads the body of a request that changes something.
func selectionOf(w http.ResponseWriter, r *http.Request) (Selection, error) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	var s selectionBody
	if err := decoder.Decode(&s); err != nil {
		return Selection{}, bodyError(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Selection{}, httpError{http.StatusBadRequest, "body: there is more than one object"}
	}
	return s.check()
}

func bodyError(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("body: it must not be larger than %d bytes", maxBody)}
	}
	return httpError{
		http.StatusBadRequest,
		"body: it must be a JSON object with some of namespace, subscription, reason, sequence and all: " + err.Error(),
	}
}

func (s selectionBody) check() (Selection, error) {
	selected := Selection{
		Namespace: s.Namespace, Subscription: s.Subscription, Reason: failure.Reason(s.Reason), Sequence: s.Sequence,
	}
	switch {
	case s.Namespace == "" && s.Sequence == 0 && !s.All:
		return selected, httpError{
			http.StatusBadRequest,
			`nothing is selected: add "namespace" and "subscription", "sequence", or "all": true for every dead letter`,
		}
	case s.All && s.Sequence != 0:
		return selected, httpError{http.StatusBadRequest, `"all" and "sequence" contradict each other: leave one out`}
	}
	return selected, invalid(selected.Validate())
}

// queryOf reads what a list is asked for.
func queryOf(values url.Values) (Query, error) {
	query := Query{Limit: defaultLimit}
	for name := range values {
		value := values.Get(name)
		var err error
		switch name {
		case "namespace":
			query.Namespace = value
		case "subscription":
			query.Subscription = value
		case "reason":
			query.Reason = failure.Reason(value)
		case "after":
			query.After, err = number(name, value)
		case "limit":
			var limit uint64
			limit, err = number(name, value)
			query.Limit = int(min(limit, maxLimit))
			if limit == 0 && err == nil {
				err = httpError{http.StatusBadRequest, "limit: it must be at least 1"}
			}
		default:
			err = httpError{http.StatusBadRequest, fmt.Sprintf("there is no parameter %q: use namespace, subscription, reason, after or limit", name)}
		}
		if err != nil {
			return query, err
		}
	}
	return query, invalid(query.Validate())
}

// namespaceOf reads the one parameter that a request may have. It is empty for all namespaces.
func namespaceOf(values url.Values) (string, error) {
	for name := range values {
		if name != "namespace" {
			return "", httpError{http.StatusBadRequest, fmt.Sprintf("there is no parameter %q: use namespace", name)}
		}
	}
	selected := Selection{Namespace: values.Get("namespace")}
	return selected.Namespace, invalid(selected.Validate())
}

func number(name, text string) (uint64, error) {
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, httpError{http.StatusBadRequest, name + ": it must be a number"}
	}
	return value, nil
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return httpError{http.StatusBadRequest, err.Error()}
}
