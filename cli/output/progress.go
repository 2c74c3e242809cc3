package output

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is silent for so long, and is updated as often on a terminal.
const progressPause = time.Second

// Progress shows what is waited for, once that takes more than a second.
type Progress struct {
	w        io.Writer
	terminal bool

	mu     sync.Mutex
	text   string
	shown  string // the text that was written last
	open   bool   // a line on the terminal has no end yet
	begun  time.Time
	done   chan struct{}
	ended  chan struct{}
	closed bool
}

// NewProgress starts to show text while the caller waits. Done must be called.
func NewProgress(w io.Writer, text string) *Progress { return newProgress(w, text, IsTerminal(w)) }

func newProgress(w io.Writer, text string, terminal bool) *Progress {
	p := &Progress{
		w: w, terminal: terminal, text: text, begun: time.Now(), done: make(chan struct{}), ended: make(chan struct{}),
	}
	go p.run()
	return p
}

// SetText replaces what is waited for.
func (p *Progress) SetText(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// Done ends it, and clears the line on a terminal.
func (p *Progress) Done() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.mu.Unlock()
	close(p.done)
	<-p.ended
}

func (p *Progress) run() {
	defer close(p.ended)
	ticker := time.NewTicker(progressPause)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			if p.open {
				p.write("\r\x1b[K")
			}
			return
		case <-ticker.C:
			p.show()
		}
	}
}

func (p *Progress) show() {
	p.mu.Lock()
	text := Clean(p.text)
	p.mu.Unlock()
	switch {
	case text == "":
	case p.terminal:
		p.open = true
		p.write(fmt.Sprintf("\r\x1b[K%s (%d s)", text, int(time.Since(p.begun).Seconds())))
	case text != p.shown:
		p.write(text + "\n")
	}
	p.shown = text
}

func (p *Progress) write(text string) { _, _ = io.WriteString(p.w, text) } // progress that cannot be written is no failure
