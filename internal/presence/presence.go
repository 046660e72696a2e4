// Package presence publishes on the server, while a session holds or waits for something, which process it is, which
// notes its holds have, and which of its calls have waited for long while their owners hold something. It also reads
// what other sessions publish.
package presence

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Process is what a session publishes about itself.
type Process struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Label   string    `json:"label,omitempty"`
	Started time.Time `json:"started"`
}

// A Session is what a [Teller] knows about its session.
type Session struct {
	ID     string
	Client rueidis.Client
	Runner *script.Runner
	Lease  time.Duration
	Logger *slog.Logger
	Now    func() time.Duration
	Start  func(f func()) bool // runs f in a goroutine, unless the session has ended
	Busy   func() bool         // reports whether the session holds or waits for anything
	Breaks bool                // the youngest wait of a cycle is to fail
}

// A Teller keeps a key on the server that says which process a session is. The key expires some time after the session
// has ended. A hold of a moment costs nothing.
type Teller struct {
	ctx     context.Context //nolint:containedctx // the session's
	session Session
	key     string
	text    string // what the key has; "": nothing is told

	awake atomic.Bool   // the goroutine runs
	due   time.Duration // the next telling; the goroutine's alone
	told  atomic.Bool   // the server may have the key
	said  Told          // in the key, of what may be told besides the process; the goroutine's alone
	mute  bool          // the server refuses the key; the goroutine's alone
	stirs chan struct{} // there may be something to publish before the next telling is due

	waits waits
	notes notes
}

// notice is how long a session holds something, or waits, before it tells the server.
const notice = 250 * time.Millisecond

// Round is the time between two tellings of a session some of whose calls wait for long, at least.
const Round = notice

// NewTeller returns the teller of a session whose goroutines end with ctx. Without a process it publishes nothing.
func NewTeller(ctx context.Context, s Session, p *Process) *Teller {
	t := &Teller{ctx: ctx, session: s, key: wire.SessionKey(s.ID), stirs: make(chan struct{}, 1)}
	t.waits.nested = map[uint64]*Nested{}
	if p != nil {
		text, _ := json.Marshal(p) // never fails: texts, a number and a time
		t.text = string(text)
		t.said.Process = *p
	}
	return t
}

// Stir says that a call begins, which may hold something or wait for it.
func (t *Teller) Stir() {
	if t.text != "" && !t.awake.Load() && t.awake.CompareAndSwap(false, true) {
		t.session.Start(t.run)
	}
}

// run writes the key from time to time, until the session neither holds nor waits for anything.
func (t *Teller) run() {
	for t.pause() {
		if t.session.Busy() {
			t.tellMore()
			continue
		}
		t.awake.Store(false)
		if !t.session.Busy() || !t.awake.CompareAndSwap(false, true) { // otherwise it came just now
			return
		}
	}
}

// pause sleeps until something may have to be told, and reports whether the session lasts.
func (t *Teller) pause() bool {
	d := max(notice, t.due-t.session.Now())
	if !t.mute && (t.waits.any() || t.notes.any()) {
		d = notice
	}
	end := t.session.Now() + d
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-t.stirs:
			end = min(end, t.session.Now()+notice)
			timer.Reset(end - t.session.Now())
		case <-t.ctx.Done():
			return false
		}
	}
}

// tell writes the key. Nobody depends on it: a failure is left to the next time.
func (t *Teller) tell() error {
	s := &t.session
	ctx, cancel := context.WithTimeout(t.ctx, s.Lease/6)
	defer cancel()
	t.told.Store(true)
	lives := lease.Add(s.Lease, s.Lease/3)
	err := s.Runner.Alone(ctx, t.key, func() error {
		return s.Client.Do(ctx, s.Client.B().Set().Key(t.key).Value(t.value()).Px(lives).Build()).Error()
	})
	t.due = s.Now() + s.Lease/3
	if t.mute = refusal.Denied(err); t.mute {
		t.due = lease.Add(s.Now(), time.Hour) // not a command each time for nothing
		s.Logger.Info("holdfast: the server is not told which process this session is", "error", err)
	}
	return err
}

// End makes the server forget the session, if it was told of it. After an error the key may be there until it expires.
func (t *Teller) End(ctx context.Context) error {
	if !t.told.Load() {
		return nil
	}
	client := t.session.Client
	return client.Do(ctx, client.B().Del().Key(t.key).Build()).NonRedisError()
}

// Told asks what the sessions of wire owners publish; the result is empty for an unknown one. It is a help for people,
// so after an error all are unknown, and so they are if nobody answers soon: on its own, the client would ask as long
// as the server is away, and ignore ctx while somebody else connects. A session that publishes nothing does not ask
// either, since it may not have the right.
func (t *Teller) Told(ctx context.Context, owners []string) []Told {
	all := make([]Told, len(owners))
	if t.text == "" {
		return all
	}
	sessions := make([]string, len(owners))
	for i, owner := range owners {
		sessions[i] = sessionOf(owner)
	}
	within, cancel := context.WithTimeout(t.ctx, t.session.Lease/6)
	defer cancel()
	answers := make(chan map[string]Told, 1)
	if !t.session.Start(func() {
		known, _ := Ask(within, t.session.Client, sessions)
		answers <- known
	}) {
		return all
	}
	var known map[string]Told
	select {
	case known = <-answers:
	case <-within.Done():
	case <-ctx.Done():
	}
	for i, session := range sessions {
		all[i] = known[session]
	}
	return all
}

// idLength is the length of a session's id.
const idLength = 36

// sessionOf returns the session's id in a wire owner of this toolkit or of Redisson, or "" if there is none.
func sessionOf(owner string) string {
	session, _, _ := strings.Cut(owner, ":")
	if len(session) != idLength || strings.Count(session, "-") != 4 {
		return ""
	}
	return session
}

// Ask asks what sessions publish, in one round trip to each server, and returns those that publish something. After an
// error it also returns the answers that it has.
func Ask(ctx context.Context, client rueidis.Client, sessions []string) (map[string]Told, error) {
	sessions = slices.Compact(slices.Sorted(slices.Values(sessions)))
	sessions = slices.DeleteFunc(sessions, func(s string) bool { return s == "" })
	known := make(map[string]Told)
	if len(sessions) == 0 {
		return known, nil
	}
	var commands rueidis.Commands
	for _, session := range sessions {
		commands = append(commands, client.B().Get().Key(wire.SessionKey(session)).Build())
	}
	var failed error
	for i, result := range client.DoMulti(ctx, commands...) {
		var t Told
		switch text, err := result.AsBytes(); {
		case rueidis.IsRedisNil(err):
		case err != nil:
			failed = err
		case json.Unmarshal(text, &t) == nil:
			known[sessions[i]] = t
		}
	}
	return known, failed
}
