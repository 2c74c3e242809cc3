package admin

import (
	"net/http"
	"slices"

	"github.com/rouse-run/rouse/eventbridge/identity"
)

// subscriptions lists what each has to do.
func (h *Handler) subscriptions(_ http.ResponseWriter, r *http.Request) (action, error) {
	namespace, err := namespaceOf(r.URL.Query())
	do := func(w http.ResponseWriter, r *http.Request, _ identity.User) error {
		all, err := h.store.Subscriptions(r.Context())
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(s Subscription) bool { return namespace != "" && s.Namespace != namespace })
		if all == nil {
			all = []Subscription{}
		}
		answer(w, http.StatusOK, struct {
			Subscriptions []Subscription `json:"subscriptions"`
		}{all})
		return nil
	}
	return action{identity.ListSubscriptions(namespace), do}, err
}

// list shows a page of dead letters.
func (h *Handler) list(_ http.ResponseWriter, r *http.Request) (action, error) {
	query, err := queryOf(r.URL.Query())
	do := func(w http.ResponseWriter, r *http.Request, _ identity.User) error {
		page, err := h.store.List(r.Context(), query)
		if err != nil {
			return err
		}
		if page.DeadLetters == nil {
			page.DeadLetters = []DeadLetter{}
		}
		answer(w, http.StatusOK, page)
		return nil
	}
	return action{identity.ListDeadLetters(query.Namespace), do}, err
}

// get shows one dead letter. One of another namespace than the request names is none, so that sequences tell nobody about others.
func (h *Handler) get(_ http.ResponseWriter, r *http.Request) (action, error) {
	sequence, err := number("sequence", r.PathValue("sequence"))
	if err != nil {
		return action{}, err
	}
	namespace, err := namespaceOf(r.URL.Query())
	do := func(w http.ResponseWriter, r *http.Request, _ identity.User) error {
		found, err := h.store.Get(r.Context(), sequence)
		if err == nil && namespace != "" && found.Namespace != namespace {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		answer(w, http.StatusOK, found)
		return nil
	}
	return action{identity.GetDeadLetter(namespace), do}, err
}
