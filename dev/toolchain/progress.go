package toolchain

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// step is a piece of work that the user of a Function may have to wait for. Several may run at a time.
type step struct {
	launching *launching
	text      string
	began     time.Time // zero unless it is worth a line
}

// step notes what is waited for, for as long as it lasts.
func (l *launching) step(text string) *step {
	s := &step{launching: l, text: text}
	l.mu.Lock()
	l.steps = append(l.steps, s)
	l.mu.Unlock()
	l.showSteps()
	return s
}

// begin reports that the work has to be done after all, and may take long.
func (s *step) begin(text string) {
	s.launching.mu.Lock()
	s.text, s.began = text, time.Now()
	s.launching.mu.Unlock()
	s.launching.reportProgress(text)
	s.launching.showSteps()
}

// end reports how long it took; a failure is reported by the caller.
func (s *step) end(err error) {
	l := s.launching
	l.mu.Lock()
	l.steps = slices.DeleteFunc(l.steps, func(other *step) bool { return other == s })
	l.mu.Unlock()
	l.showSteps()
	if err == nil && !s.began.IsZero() {
		l.reportProgress(fmt.Sprintf("done in %.1f s: %s", time.Since(s.began).Seconds(), s.text))
	}
}

func (l *launching) showSteps() {
	l.mu.Lock()
	defer l.mu.Unlock() // also during the call, so that the last one counts
	texts := make([]string, 0, len(l.steps))
	for _, s := range l.steps {
		texts = append(texts, s.text)
	}
	l.t.o.Doing(l.key(), strings.Join(texts, "; "))
}
