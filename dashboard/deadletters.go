package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/internal/failure"
)

const (
	// maxSelected bounds the dead letters of a request: a page sends the next ones when these are done, and shows its progress.
	maxSelected = 50
	maxBody     = 16 << 10
	// changeTimeout bounds a redrive or purge.
	changeTimeout = time.Minute
)

// deadLetters returns a page of dead letters.
func (h *Handler) deadLetters(w http.ResponseWriter, r *http.Request, user User) error {
	query, err := admin.ParseQuery(r.URL.Query())
	if err != nil {
		return Error{http.StatusBadRequest, err.Error()}
	}
	page, err := h.deps.DeadLetters.List(r.Context(), user, query)
	if err != nil {
		return err
	}
	if page.DeadLetters == nil {
		page.DeadLetters = []admin.DeadLetter{}
	}
	answer(w, http.StatusOK, page)
	return nil
}

func (h *Handler) deadLetter(w http.ResponseWriter, r *http.Request, user User) error {
	sequence, err := strconv.ParseUint(r.PathValue("sequence"), 10, 64)
	if err != nil {
		return Error{http.StatusBadRequest, "sequence: it must be a number"}
	}
	found, err := h.deps.DeadLetters.Get(r.Context(), user, sequence)
	if err == nil {
		answer(w, http.StatusOK, found)
	}
	return err
}

// selected names the dead letters of a request one by one, so that nothing is changed that the user has not seen.
type selected struct {
	Sequences []uint64 `json:"sequences"`
}

// changed is the result of a redrive or purge.
type changed struct {
	Done int `json:"done"`
	// Gone were not there any more.
	Gone   int `json:"gone,omitempty"`
	Failed int `json:"failed,omitempty"`
	// Problems has each reason of a failure once.
	Problems []string `json:"problems,omitempty"`
	// Left were not tried, because time was up.
	Left []uint64 `json:"left,omitempty"`
}

func (h *Handler) redrive(w http.ResponseWriter, r *http.Request, user User) error {
	return h.change(w, r, user, "dead letters redriven", func(ctx context.Context, one admin.Selection, c *changed) error {
		done, err := h.deps.DeadLetters.Redrive(ctx, user, one)
		c.Done, c.Failed = c.Done+int(done.Redriven), c.Failed+int(done.Failed)
		for _, problem := range done.Problems {
			c.note(problem)
		}
		if err == nil && done.Redriven+done.Failed == 0 {
			c.Gone++
		}
		return err
	})
}

func (h *Handler) purge(w http.ResponseWriter, r *http.Request, user User) error {
	return h.change(w, r, user, "dead letters purged", func(ctx context.Context, one admin.Selection, c *changed) error {
		count, err := h.deps.DeadLetters.Purge(ctx, user, one)
		c.Done += int(count)
		if err == nil && count == 0 {
			c.Gone++
		}
		return err
	})
}

// change does something with each of the selected dead letters. It responds with how far it came.
func (h *Handler) change(
	w http.ResponseWriter, r *http.Request, user User, what string, do func(context.Context, admin.Selection, *changed) error,
) error {
	var body selected
	if err := decode(w, r, &body, maxBody); err != nil {
		return err
	}
	if len(body.Sequences) == 0 || len(body.Sequences) > maxSelected || slices.Contains(body.Sequences, 0) {
		return Error{http.StatusBadRequest, "sequences: name from 1 to " + strconv.Itoa(maxSelected) + " dead letters"}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body is read, and the rest has a bound of its own
	ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
	defer cancel()
	var result changed
	for i, sequence := range body.Sequences {
		if ctx.Err() != nil {
			result.Left = body.Sequences[i:]
			break
		}
		switch err := do(ctx, admin.Selection{Sequence: sequence}, &result); {
		case err == nil:
		case errors.Is(err, failure.ErrDeadLetterNotFound):
			result.Gone++
		default:
			result.Failed++
			result.note(err.Error())
		}
	}
	h.audit(user, what, "done", result.Done, "failed", result.Failed, "gone", result.Gone, "sequences", body.Sequences)
	answer(w, http.StatusOK, result)
	return nil
}

func (c *changed) note(problem string) {
	if !slices.Contains(c.Problems, problem) {
		c.Problems = append(c.Problems, problem)
	}
}
