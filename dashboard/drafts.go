package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Ref names an object that pages can write.
type Ref struct {
	// Kind is KindFunction or KindSubscription.
	Kind string
	types.NamespacedName
}

// The kinds of objects that pages can write.
const (
	KindFunction     = "Function"
	KindSubscription = "Subscription"
)

// Author reads and writes the objects that pages can write. Its errors are for the user; of type Error they have a status of their own.
type Author interface {
	// Written returns an object as it is written, in a file or in the cluster; nil for none.
	Written(ctx context.Context, user User, ref Ref) (*unstructured.Unstructured, error)
	// Write validates edits as an API server does, and carries them out unless dry. It carries out none when it refuses one.
	Write(ctx context.Context, user User, edits []Edit, options WriteOptions) (Written, error)
}

// Edit sets fields of an object, which it creates where it is missing. Other fields stay.
type Edit struct {
	Ref

	// Fields are those to set. A field that is nil is removed.
	Fields map[string]any
}

// WriteOptions say how to write.
type WriteOptions struct {
	// Dry has nothing changed.
	Dry bool
	// Create refuses objects that are there.
	Create bool
	// Force takes fields over that another program has written.
	Force bool
}

// Written is the result of a Write.
type Written struct {
	Texts    []Text
	Refusals []Refusal
}

// Text is an object before and after, in YAML; empty where it is missing.
type Text struct {
	Ref

	// File is the file below the folder, in local mode.
	File          string
	Before, After string
}

// Refusal is a reason to write nothing.
type Refusal struct {
	Ref

	// Path is the field, such as "spec.types"; empty when it is none.
	Path            string
	Message, Remedy string
	// Conflict reports that Force would help.
	Conflict bool
}

// proposal is the body of a request that writes.
type proposal struct {
	Function     *FunctionDraft     `json:"function,omitempty"`
	Subscription *SubscriptionDraft `json:"subscription,omitempty"`

	Create bool `json:"create,omitempty"`
	Force  bool `json:"force,omitempty"`
	// Seen is the Digest of the answer that the user has seen. Without it nothing is changed.
	Seen string `json:"seen,omitempty"`
}

// outlook is the answer: what is written, and what is wrong with it.
type outlook struct {
	Objects  []preview `json:"objects"`
	Problems []problem `json:"problems"`
	Digest   string    `json:"digest,omitempty"`
	Applied  bool      `json:"applied"`
}

// preview is an object as it would be written.
type preview struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	File      string `json:"file,omitempty"`
	YAML      string `json:"yaml"`
	// New reports that the object is created; Diff is empty then.
	New  bool       `json:"new,omitempty"`
	Diff []diffLine `json:"diff"`
}

// problem is what is wrong with a field of the form.
type problem struct {
	// Field names the field of the form, as "function.source"; empty when the form does not have it.
	Field    string `json:"field"`
	Message  string `json:"message"`
	Remedy   string `json:"remedy,omitempty"`
	Conflict bool   `json:"conflict,omitempty"`
}

// maxDraft bounds the body of a draft, whose source has twice as many bytes in JSON at most.
const maxDraft = 512 << 10

// errUnseen is the refusal of what was changed after it was shown.
var errUnseen = Error{http.StatusConflict, "it is not what was shown, because the object was changed since then: look at it again, and apply that"}

// draft returns the fields of a form for an object that is there.
func (h *Handler) draft(w http.ResponseWriter, r *http.Request, user User) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	found, err := h.deps.State.Snapshot(r.Context(), user)
	if err != nil {
		return err
	}
	fn, err := h.deps.Author.Written(r.Context(), user, Ref{KindFunction, name})
	if err != nil {
		return refusal(err)
	}
	if fn == nil {
		return ErrNotFound
	}
	drafts := struct {
		Function      FunctionDraft       `json:"function"`
		Subscriptions []SubscriptionDraft `json:"subscriptions"`
	}{functionDraft(fn), []SubscriptionDraft{}}
	for i := range found.Subscriptions {
		sub := &found.Subscriptions[i]
		if !sub.Function || sub.Sink != name.String() || len(drafts.Subscriptions) == maxShown {
			continue
		}
		drafts.Subscriptions = append(drafts.Subscriptions, SubscriptionDraft{
			Namespace: sub.Namespace, Name: sub.Name, Source: sub.Source, Types: sub.Types, Function: name.Name,
		})
	}
	answer(w, http.StatusOK, drafts)
	return nil
}

// write shows what a draft would write, and writes what was shown.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, user User) error {
	var wanted proposal
	if err := decode(w, r, &wanted, maxDraft); err != nil {
		return err
	}
	ctx, cancel := unhurried(w, r)
	defer cancel()
	edits, problems, err := h.edits(ctx, user, &wanted)
	if err != nil {
		return refusal(err)
	}
	shown := outlook{Objects: []preview{}, Problems: problems}
	if len(problems) == 0 {
		if shown, err = h.writeEdits(ctx, user, edits, WriteOptions{Dry: true, Create: wanted.Create, Force: wanted.Force}); err != nil {
			return err
		}
	}
	if wanted.Seen == "" || len(shown.Problems) > 0 {
		answer(w, http.StatusOK, shown)
		return nil
	}
	if wanted.Seen != shown.Digest {
		return errUnseen
	}
	if shown, err = h.writeEdits(ctx, user, edits, WriteOptions{Create: wanted.Create, Force: wanted.Force}); err != nil {
		return err
	}
	shown.Applied = len(shown.Problems) == 0
	h.audit(user, "objects written", "objects", names(edits), "applied", shown.Applied)
	answer(w, http.StatusOK, shown)
	return nil
}

// edits returns what a proposal sets, and what is wrong with it.
func (h *Handler) edits(ctx context.Context, user User, wanted *proposal) ([]Edit, []problem, error) {
	edits, problems := wanted.edits()
	if len(problems) > 0 || wanted.Subscription == nil || wanted.Create {
		return edits, problems, nil
	}
	edit := &edits[len(edits)-1]
	written, err := h.deps.Author.Written(ctx, user, edit.Ref)
	if err != nil || written == nil {
		return edits, nil, err
	}
	if elsewhere := wanted.Subscription.keepSink(edit, written); elsewhere != nil {
		problems = append(problems, *elsewhere)
	}
	return edits, problems, nil
}

func (h *Handler) writeEdits(ctx context.Context, user User, edits []Edit, options WriteOptions) (outlook, error) {
	result, err := h.deps.Author.Write(ctx, user, edits, options)
	if err != nil {
		return outlook{}, refusal(err)
	}
	return outlookOf(result)
}

func names(edits []Edit) []string {
	found := make([]string, 0, len(edits))
	for _, edit := range edits {
		found = append(found, edit.Kind+" "+edit.String())
	}
	return found
}

// outlookOf returns what pages show of a result, without the values of variables.
func outlookOf(result Written) (outlook, error) {
	shown, sum := outlook{Objects: []preview{}, Problems: []problem{}}, sha256.New()
	for _, each := range result.Refusals {
		shown.Problems = append(shown.Problems, problem{
			Field: fieldOf(each), Message: bounded(each.Message), Remedy: each.Remedy, Conflict: each.Conflict,
		})
	}
	for _, text := range result.Texts {
		sum.Write([]byte(text.File + "\x00" + text.Before + "\x00" + text.After + "\x00"))
		before, err := withoutValues(text.Before)
		if err != nil {
			return shown, err
		}
		after, err := withoutValues(text.After)
		if err != nil {
			return shown, err
		}
		lines := []diffLine{}
		if text.Before != "" {
			lines = diff(before, after)
		}
		shown.Objects = append(shown.Objects, preview{
			Kind: text.Kind, Namespace: text.Namespace, Name: text.Name, File: text.File, YAML: after, New: text.Before == "", Diff: lines,
		})
	}
	if len(shown.Problems) == 0 {
		shown.Digest = hex.EncodeToString(sum.Sum(nil)[:16])
	}
	return shown, nil
}

// refusal returns an error of a home, whose text is for the user.
func refusal(err error) error {
	if _, known := errors.AsType[Error](err); known || errors.Is(err, ErrNotFound) {
		return err
	}
	return Error{http.StatusUnprocessableEntity, err.Error()}
}
