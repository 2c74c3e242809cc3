package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var errNoReview = errors.New("the body is no ConversionReview with a request")

// question is the part of a ConversionReview that the API server asks.
type question struct {
	metav1.TypeMeta `json:",inline"`

	Request *request `json:"request"`
}

type request struct {
	UID               types.UID `json:"uid"`
	DesiredAPIVersion string    `json:"desiredAPIVersion"`
	Objects           objects   `json:"objects"`
}

// objects are texts that nothing is made of yet.
type objects []json.RawMessage

// UnmarshalJSON counts them as it decodes.
func (o *objects) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	switch open, err := decoder.Token(); {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('['):
		return errNoReview
	}
	*o = nil
	for decoder.More() {
		if len(*o) == maxObjects {
			return errObjects
		}
		var each json.RawMessage
		if err := decoder.Decode(&each); err != nil {
			return err
		}
		*o = append(*o, each)
	}
	return nil
}

// review answers a ConversionReview. What takes CPU waits for the caller's turn.
func (h *Handler) review(ctx context.Context, caller string, body []byte) (text []byte, err error) {
	asked := &question{}
	if busy := h.turn(ctx, caller, func() { err = json.Unmarshal(body, asked) }); busy != nil {
		return nil, busy
	}
	if errors.Is(err, errObjects) {
		return nil, errObjects
	}
	if err != nil || asked.Request == nil {
		return nil, errNoReview
	}
	answer := &apiextensionsv1.ConversionReview{TypeMeta: asked.TypeMeta, Response: h.answer(ctx, caller, asked.Request)}
	if busy := h.turn(ctx, caller, func() { text, err = json.Marshal(answer) }); busy != nil {
		return nil, busy
	}
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return text, nil
}

// answer converts all objects, or says why one of them cannot be.
func (h *Handler) answer(ctx context.Context, caller string, asked *request) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: asked.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	size := 0
	for _, each := range asked.Objects {
		var converted []byte
		var err error
		if busy := h.turn(ctx, caller, func() { converted, err = h.convert(ctx, each, asked.DesiredAPIVersion) }); busy != nil {
			err = fmt.Errorf("converting took more than %s: ask for the list in pages (limit)", timeout)
		}
		if size += len(converted); err == nil && size > maxAnswer {
			err = fmt.Errorf("the answer has more than %d MiB: ask for the list in pages (limit)", maxAnswer>>20)
		}
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInvalid}
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, rawOf(converted))
	}
	return response
}
