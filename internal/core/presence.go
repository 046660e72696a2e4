package core

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Process is what a session tells of itself while it holds or waits for something.
type Process struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Label   string    `json:"label,omitempty"`
	Started time.Time `json:"started"`
}

// A presence has the server know which process a session is, under a key that runs out some time after
// the session does. What is held for a moment only costs nothing.
type presence struct {
	session *Session
	key     string
	text    string        // what the key has; "": nothing is told
	period  time.Duration // between two tellings at least
	ttl     time.Duration

	awake atomic.Bool   // the goroutine runs
	due   time.Duration // the next telling; the goroutine's alone
	told  atomic.Bool   // the server may have the key
}

// notice is how long something is held or waited for before that is told.
const notice = 250 * time.Millisecond

func (p *presence) init(s *Session, process *Process) {
	p.session, p.key = s, wire.SessionKey(s.id)
	p.period, p.ttl = s.config.Lease/3, 4*s.config.Lease/3
	if process != nil {
		text, _ := json.Marshal(process) // never fails: texts, a number and a time
		p.text = string(text)
	}
}

// stir says that a call begins, which may hold something or wait for it.
func (p *presence) stir() {
	if p.text != "" && !p.awake.Load() && p.awake.CompareAndSwap(false, true) {
		p.session.start(p.run)
	}
}

// run tells the server now and then, until the session neither holds nor waits for anything.
func (p *presence) run() {
	s := p.session
	for pause(s.ctx, max(notice, p.due-s.now())) == nil {
		if p.needed() {
			p.tell()
			continue
		}
		p.awake.Store(false)
		if !p.needed() || !p.awake.CompareAndSwap(false, true) { // else it came just now
			return
		}
	}
}

// needed reports whether the session holds or waits for anything.
func (p *presence) needed() bool { return p.session.calls.busy() || p.session.tenures.any() }

// tell writes the key. Nobody depends on it: what fails is left to the next time.
func (p *presence) tell() {
	s := p.session
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.config.Lease/6, errNoReply)
	defer cancel()
	p.told.Store(true)
	err := s.config.Client.Do(ctx, s.config.Client.B().Set().Key(p.key).Value(p.text).Px(p.ttl).Build()).Error()
	p.due = s.now() + p.period
	if _, refused := rueidis.IsRedisErr(err); refused && !script.Passes(err) {
		p.due = lease.Add(s.now(), time.Hour) // not a command each time for nothing
		s.config.Logger.Info("holdfast: the server is not told which process this session is", "error", err)
	}
}

// end has the server forget the session, if it was told of it.
func (p *presence) end(ctx context.Context) {
	if p.told.Load() {
		ctx, cancel := context.WithTimeoutCause(ctx, notice, errNoReply)
		defer cancel()
		client := p.session.config.Client
		_ = client.Do(ctx, client.B().Del().Key(p.key).Build()).Error() // else it runs out
	}
}

// processes asks which processes the wire owners are of; one of which nobody knows is empty. It is a help
// for people: an error is as good as an answer that nobody is known. A session that tells nothing does
// not ask either: it may not have the right.
func (s *Session) processes(ctx context.Context, owners []string) []Process {
	all := make([]Process, len(owners))
	if s.known.text == "" {
		return all
	}
	sessions := make([]string, len(owners))
	for i, owner := range owners {
		sessions[i] = SessionOf(owner)
	}
	known, _ := Processes(ctx, s.config.Client, sessions)
	for i, session := range sessions {
		all[i] = known[session]
	}
	return all
}

// SessionOf is the session's id in a wire owner of this toolkit's or of Redisson's; "" if it is none.
func SessionOf(owner string) string {
	session, _, _ := strings.Cut(owner, ":")
	if len(session) != idLength || strings.Count(session, "-") != 4 {
		return ""
	}
	return session
}

// Processes asks which processes the sessions are, in one round trip to each server, and returns those that
// tell. After an error what is known is returned, too.
func Processes(ctx context.Context, client rueidis.Client, sessions []string) (map[string]Process, error) {
	sessions = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(sessions))), func(s string) bool { return s == "" })
	known := make(map[string]Process)
	if len(sessions) == 0 {
		return known, nil
	}
	var commands rueidis.Commands
	for _, session := range sessions {
		commands = append(commands, client.B().Get().Key(wire.SessionKey(session)).Build())
	}
	var failed error
	for i, result := range client.DoMulti(ctx, commands...) {
		var p Process
		switch text, err := result.AsBytes(); {
		case rueidis.IsRedisNil(err):
		case err != nil:
			failed = err
		case json.Unmarshal(text, &p) == nil:
			known[sessions[i]] = p
		}
	}
	return known, failed
}
