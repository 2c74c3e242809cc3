package ingress

import (
	"errors"
	"net/http"
)

// legacySuccess has the id of the event that is stored. The other members are always empty; clients know them.
type legacySuccess struct {
	ID     string `json:"event-id"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// legacyProblem says why an event is not known to be stored.
type legacyProblem struct {
	Status   int            `json:"status,omitempty"`
	Type     string         `json:"type,omitempty"`
	Message  string         `json:"message,omitempty"`
	MoreInfo string         `json:"moreInfo,omitempty"`
	Details  []legacyDetail `json:"details,omitempty"`

	retryAfter int // seconds, 0 for none
}

type legacyDetail struct {
	Field    string `json:"field,omitempty"`
	Type     string `json:"type,omitempty"`
	Message  string `json:"message,omitempty"`
	MoreInfo string `json:"moreInfo,omitempty"`
}

// legacyRefusal says why a request holds no event.
func legacyRefusal(err error) legacyProblem {
	if errors.Is(err, errTooLarge) {
		return tooLarge(err.Error())
	}
	if resp := refusal(err); resp.status != http.StatusBadRequest {
		return fromResponse(resp)
	}
	field, ok := errors.AsType[fieldError](err)
	if !ok {
		return badSyntax(err.Error())
	}
	detail := legacyDetail{Field: field.field, Type: "invalid_field", Message: "Invalid field"}
	if field.missing {
		detail.Type, detail.Message = "missing_field", "Missing field"
	}
	return legacyProblem{
		Status: http.StatusBadRequest, Type: "validation_violation", Message: detail.Message, Details: []legacyDetail{detail},
	}
}

// legacyFailure is the answer for an event that was not stored.
func legacyFailure(err error, resp response) legacyProblem {
	if invalid, ok := errors.AsType[*InvalidEventError](err); ok {
		return badSyntax(invalid.Reason)
	}
	if errors.Is(err, ErrTooLarge) {
		return tooLarge(resp.reason)
	}
	return fromResponse(resp)
}

func badSyntax(reason string) legacyProblem {
	return legacyProblem{Status: http.StatusBadRequest, Type: "bad_payload_syntax", Message: "Bad payload syntax", MoreInfo: brief(reason)}
}

func tooLarge(reason string) legacyProblem {
	return legacyProblem{
		Status: http.StatusRequestEntityTooLarge, Type: "request_body_too_large", Message: "Request body too large", MoreInfo: reason,
	}
}

func fromResponse(resp response) legacyProblem {
	return legacyProblem{Status: resp.status, Message: resp.reason, retryAfter: resp.retryAfter}
}

func respondLegacy(w http.ResponseWriter, problem legacyProblem) {
	respondJSON(w, problem.Status, problem.retryAfter, problem)
}
