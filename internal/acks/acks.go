// Package acks waits until replicas have the grants of a session.
//
// WAIT blocks its connection for everybody else, so the client takes a dedicated one from its pool. WAIT counts the
// replicas that have the last write of that connection. So a round first asks, in one pipeline, whether the server has
// the grants; then it writes something, and waits. A replica that has this write has everything the server had before
// it. It does not matter whether another server has taken over since the grant: the round asks the server that is there
// now.
//
// A round covers everything that was granted before it began. Grants that come meanwhile gather for the next round, so
// a thousand grants a second need few rounds.
package acks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Grant is what a server has granted to a wire owner.
type Grant struct {
	Key      string // of the lock
	Slot     uint16 // of the key; 0 unless the server is a cluster
	Protocol kind.Protocol
	Wire     string
	Trust    time.Duration // it may be trusted until then
}

// A Hold is a hold that has a grant.
type Hold interface {
	Granted() Grant
	// Acked reports whether replicas are known to have the grant, and records that they do if they have it.
	Acked(have bool) bool
	Err() error
}

// Await returns nil when as many replicas as the session wants have the grants of the holds, which are all of one slot.
// It waits at most as long as two rounds take, and no longer than the holds are trusted. If the session wants no
// replicas, it returns at once.
func Await[H Hold](ctx context.Context, s *session.Session, holds []H) error {
	if s.Config().Acks == nil {
		return nil
	}
	var grants []Grant
	for _, h := range holds {
		if !h.Acked(false) {
			grants = append(grants, h.Granted())
		}
	}
	if len(grants) > 0 {
		if err := await(ctx, s, grants); err != nil {
			return err
		}
	}
	for _, h := range holds {
		h.Acked(true)
		if err := h.Err(); err != nil { // meanwhile
			return err
		}
	}
	return nil
}

func await(ctx context.Context, s *session.Session, grants []Grant) error {
	rs := session.Attached(s, newRounds)
	w := &waiter{grants: grants, done: make(chan error, 1)}
	defer w.left.Store(true)
	rs.join(w)
	timer := time.NewTimer(min(grants[0].Trust-s.Now(), 2*rs.acks.Timeout+grace))
	defer timer.Stop()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return session.Stopped(ctx)
	case <-s.Context().Done():
		return session.ErrClosed
	case <-timer.C:
		return rs.acks.Short(new(replicas).wanted(rs.acks.Replicas), 0, rs.troubleOf(w))
	}
}

// grace is how much longer than WAIT itself its reply may take.
const grace = 500 * time.Millisecond

var errLate = errors.New("no answer in time")

// A waiter is one call that waits for replicas.
type waiter struct {
	grants  []Grant
	done    chan error // has room for the outcome
	left    atomic.Bool
	trouble error // why the last round has told nothing; guarded by that of the rounds
}

// rounds are the rounds of a session.
type rounds struct {
	session *session.Session
	acks    *session.Acks
	client  rueidis.Client
	cluster bool

	mu      sync.Mutex // guards the other fields and their contents
	slots   cluster.Map
	servers map[string]*server // by address; "" is the only one, or in a cluster those that are not known
}

// A server is one at which there are rounds.
type server struct {
	addr     string
	gathered []*waiter
	running  bool     // a goroutine looks after it
	replicas replicas // that goroutine's alone
}

func newRounds(s *session.Session) *rounds {
	c := s.Config()
	return &rounds{
		session: s, acks: c.Acks, client: c.Client, cluster: c.Client.Mode() == rueidis.ClientModeCluster,
		servers: make(map[string]*server),
	}
}

// join adds a waiter to the next round of its server.
func (rs *rounds) join(w *waiter) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	addr := rs.slots.Owner(wire.Slot(w.grants[0].Key))
	at := rs.servers[addr]
	if at == nil {
		at = &server{addr: addr}
		rs.servers[addr] = at
	}
	at.gathered = append(at.gathered, w)
	if !at.running {
		at.running = rs.session.Start(func() { rs.run(at) })
	}
}

// next are those for whom there is a round now. If there are none, the server is left alone.
func (rs *rounds) next(at *server) (all []*waiter) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all = slices.DeleteFunc(at.gathered, func(w *waiter) bool { return w.left.Load() })
	at.gathered, at.running = nil, len(all) > 0
	return all
}

// run has one round after the other while anybody waits for one.
func (rs *rounds) run(at *server) {
	delay := time.Duration(0)
	for all := rs.next(at); len(all) > 0; all = rs.next(at) {
		if rs.round(at, all) == nil {
			delay = 0
			continue
		}
		delay = wait.Retry(delay)
		_ = session.Pause(rs.session.Context(), delay) // those who wait leave when it ends
	}
}

// again adds waiters to another round, because this one had no answer for them, if that was so; then their slots may be
// elsewhere.
func (rs *rounds) again(all []*waiter, why error) error {
	rs.mu.Lock()
	if why != nil {
		rs.slots = nil
		for _, w := range all {
			w.trouble = why
		}
	}
	rs.mu.Unlock()
	for _, w := range all {
		rs.join(w)
	}
	return why
}

func (rs *rounds) troubleOf(w *waiter) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if w.trouble == nil {
		return errLate
	}
	return w.trouble
}
