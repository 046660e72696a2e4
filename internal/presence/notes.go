package presence

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// mostNotes is how many notes a session publishes, the oldest ones.
const mostNotes = 64

// notes are the texts that holds were given.
type notes struct {
	mu      sync.Mutex // guards the rest
	last    uint64
	held    map[uint64]note
	changed bool // since what is to be told was asked for
}

type note struct {
	hold, text string
	since      time.Duration
}

// Note makes the session publish the text of the hold with that id, unless the hold ends within a moment. An anonymous
// session only keeps it.
func (t *Teller) Note(hold, text string) (end func()) {
	n := &t.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held == nil {
		n.held = map[uint64]note{}
	}
	n.last++
	id := n.last
	n.held[id] = note{hold, text, t.session.Now()}
	n.change(t)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.held, id)
		n.change(t)
	}
}

// NoteOf is the newest text of the holds with that id, "" if there is none.
func (t *Teller) NoteOf(hold string) (text string) {
	n := &t.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	var newest uint64
	for id, h := range n.held {
		if h.hold == hold && id > newest {
			newest, text = id, h.text
		}
	}
	return text
}

// change makes the goroutine look whether there is something to publish.
func (n *notes) change(t *Teller) {
	if !n.changed && t.text != "" {
		n.changed = true
		t.stir()
	}
}

func (n *notes) any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// told returns the notes to publish now, by the ids of holds.
func (n *notes) told(now time.Duration) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = false
	ids := slices.Sorted(maps.Keys(n.held))
	told := map[string]string{}
	for _, id := range ids {
		if h := n.held[id]; now-h.since < notice {
			n.changed = true // it may be by then
		} else if len(told) < mostNotes {
			told[h.hold] = h.text
		}
	}
	return told
}
