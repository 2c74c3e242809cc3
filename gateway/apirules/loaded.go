package apirules

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
)

// staleAfter is how old keys may be before it is said that they cannot be fetched any more.
const staleAfter = time.Hour

// Loaded is what became of an Exposure.
type Loaded struct {
	Fingerprint string
	// Problems are those that only a gateway sees. Closes names the rule that each is about, which answers all the same where it
	// can.
	Problems apirule.Problems
}

// Loaded tells what is served.
func (e *Exposed) Loaded() map[types.NamespacedName]Loaded {
	states := map[string]jwt.State{}
	for _, state := range e.deps.Keys.States() {
		states[state.URI] = state
	}
	t := e.current.Load()
	all := make(map[types.NamespacedName]Loaded, len(t.loaded))
	for name, h := range t.loaded {
		all[name] = Loaded{Fingerprint: h.fingerprint, Problems: h.problemsWith(states)}
	}
	return all
}

// problemsWith adds those of issuers.
func (h *host) problemsWith(states map[string]jwt.State) apirule.Problems {
	problems := slices.Clip(h.problems)
	for i := range h.rules {
		for j, uri := range h.rules[i].keyURIs {
			state, fetched := states[uri]
			if !fetched {
				state.Err = jwt.ErrManyURIs
			}
			message := wordsFor(state)
			if message == "" {
				continue
			}
			field := "jwt"
			if len(h.rules[i].authorizers) > 0 {
				field = "extAuth.restrictions"
			}
			problems = append(problems, apirule.Problem{
				Attribute: fmt.Sprintf(".spec.rules[%d].%s.authentications[%d].jwksUri", i, field, j),
				Message:   message,
				Closes:    apirule.RuleAt(i),
			})
		}
	}
	return problems
}

// wordsFor is what there is to say of an issuer's keys, or nothing.
func wordsFor(state jwt.State) string {
	switch {
	case state.Err != nil && (state.Keys == 0 || state.Age >= staleAfter):
		return fmt.Sprintf("Its keys cannot be fetched, and tokens by them are refused: %v", state.Err)
	case state.Refused != nil:
		return fmt.Sprintf("Not all of its keys are used, and tokens by the others are refused: %v", state.Refused)
	}
	return ""
}
