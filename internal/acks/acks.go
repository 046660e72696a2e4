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
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Grant is what a server has granted to a wire owner, for one of its holds.
type Grant struct {
	Key      string // of the lock
	Slot     uint16 // of the key; 0 unless the server is a cluster
	Protocol kind.Protocol
	Wire     string
	Trust    time.Duration // it is trusted until then
	Watched  bool          // it is renewed: a server that does not have it is noticed, however long its lease
	Kept     bool          // replicas have what is renewed

	Of    Hold         // by which it is trusted now
	Mutex sync.Locker  // guards Acked
	Acked *owner.Acked // what replicas have

	ends  int64  // its lease must not end before, in server ms; 0: it is as it was granted
	lease string // for which it is to be renewed first; "": it is not to be
}

// A Hold is one of a grant.
type Hold interface {
	Granted() Grant
	Trust() time.Duration
	Err() error
	// MayLast records that a call may have given it a lease of d, or may yet, though it may be lost by now.
	MayLast(d time.Duration)
}

// An Executed call has granted leases, or made one longer.
type Executed struct {
	At   int64         // server ms; 0: that is not known, and the lease is as it was granted
	Sent time.Duration // when the call was sent
}

// ends is when a lease ends at the earliest that is trusted until then because of the call, in server ms.
func (e Executed) ends(until time.Duration) int64 {
	if e.At == 0 {
		return 0
	}
	return e.At + (until - e.Sent).Milliseconds() - 1
}

// Await returns nil when as many replicas as the session wants have the grants of the holds, which are all of one slot;
// by is the call that granted them. It waits at most until limit, for no longer than two rounds take, and for no
// longer than all of the holds are trusted, which may be renewed meanwhile. A hold that is renewed, and was granted for
// a part of its lease, has all of it afterwards, and so have the replicas.
func Await[H Hold](ctx context.Context, s *session.Session, limit time.Duration, holds []H, by Executed) error {
	var grants []Grant
	for _, h := range holds {
		g := h.Granted()
		if g.Watched && g.Kept || g.acked() >= g.Trust {
			continue
		}
		switch {
		case g.Watched && g.Trust-s.Now() < s.Lease()/20*19: // by a release, or some time ago
			g.lease = lease.Millis(s.Lease())
		case !g.Watched:
			g.ends = by.ends(g.Trust)
		}
		grants = append(grants, g)
	}
	if len(grants) > 0 {
		err := await(ctx, s, limit, grants)
		for _, g := range grants {
			if g.lease != "" { // for which a round has renewed it, or may yet
				g.Of.MayLast(s.Lease())
			}
		}
		if err != nil {
			return err
		}
	}
	for _, h := range holds {
		if err := h.Err(); err != nil { // meanwhile
			return err
		}
	}
	return nil
}

// Extended is Await of a hold whose lease a call has made longer, so that believe may make it trusted until then.
func Extended(
	ctx context.Context, s *session.Session, h Hold, until time.Duration, by Executed, believe func(),
) error {
	g := h.Granted()
	if g.acked() < until {
		g.ends = by.ends(until)
		if err := await(ctx, s, session.Forever, []Grant{g}); err != nil {
			return err
		}
	}
	believe()
	g.acknowledged(until)
	return nil
}

func (g *Grant) acked() time.Duration {
	g.Mutex.Lock()
	defer g.Mutex.Unlock()
	return g.Acked.Until
}

// acknowledged records what replicas have, unless an update of the lease has come in between: then they may have less.
func (g *Grant) acknowledged(until time.Duration) {
	g.Mutex.Lock()
	defer g.Mutex.Unlock()
	if g.Of.Trust() >= until {
		*g.Acked = owner.Acked{Until: max(g.Acked.Until, until), Renewed: g.Acked.Renewed || g.Watched}
	}
}

func await(ctx context.Context, s *session.Session, limit time.Duration, grants []Grant) error {
	rs := session.Attached(s, newRounds)
	w := &waiter{grants: grants, done: make(chan error, 1)}
	defer w.over.Store(true)
	rs.join(w)
	limit = min(limit, s.AcksUntil(ctx), lease.Add(s.Now(), 2*rs.acks.Timeout+grace))
	timer := time.NewTimer(min(limit, trusted(grants)) - s.Now())
	defer timer.Stop()
	for {
		select {
		case err := <-w.done:
			for _, g := range grants {
				if err == nil {
					g.acknowledged(g.Trust)
				}
			}
			return err
		case <-ctx.Done():
			return session.Stopped(ctx)
		case <-s.Context().Done():
			return session.ErrClosed
		case <-timer.C:
			if left := min(limit, trusted(grants)) - s.Now(); left > 0 { // renewed meanwhile
				timer.Reset(left)
				continue
			}
			return rs.acks.Short(new(replicas).wanted(rs.acks.Replicas), 0, rs.troubleOf(w))
		}
	}
}

// trusted is until when all of the grants are.
func trusted(grants []Grant) (until time.Duration) {
	until = grants[0].Of.Trust()
	for _, g := range grants[1:] {
		until = min(until, g.Of.Trust())
	}
	return until
}

// grace is how much longer than WAIT itself its reply may take.
const grace = 500 * time.Millisecond

var errLate = errors.New("no answer in time")

// A waiter is one call that waits for replicas.
type waiter struct {
	grants []Grant
	done   chan error  // has room for the outcome
	over   atomic.Bool // nobody waits for it any more

	// What the rounds so far have told, guarded by their mutex.
	trouble error  // why the last one has told nothing
	asks    string // the server that is to be asked next, because the slot's owner has said so
	alone   bool   // its grants are to be asked for one by one
	missed  bool   // a server did not have one of them
}

// rounds are the rounds of a session.
type rounds struct {
	session *session.Session
	acks    *session.Acks
	client  rueidis.Client
	cluster bool

	mu      sync.Mutex // guards the other fields and their contents
	slots   cluster.Map
	servers map[string]*server // by address; outside of a cluster there is one, without
}

// nowhere is the address in a cluster of those whose server is not known yet.
const nowhere = ""

// A server is one at which there are rounds.
type server struct {
	addr     string
	gathered []*waiter
	running  bool // a goroutine looks after it

	// That goroutine's alone.
	replicas replicas
	moves    bool // in the slots of the last round nothing new could be written, since they are on their way elsewhere
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
	addr := w.asks
	if rs.cluster && addr == "" {
		addr = rs.slots.Owner(wire.Slot(w.grants[0].Key))
	}
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
	all = slices.DeleteFunc(at.gathered, func(w *waiter) bool { return w.over.Load() })
	at.gathered, at.running = nil, len(all) > 0
	return all
}

// run has one round after the other while anybody waits for one.
func (rs *rounds) run(at *server) {
	delay := time.Duration(0)
	for all := rs.next(at); len(all) > 0; all = rs.next(at) {
		var trouble error
		if rs.cluster && at.addr == nowhere {
			trouble = rs.locate(all)
		} else {
			trouble = rs.round(at, all)
		}
		if trouble == nil {
			delay = 0
			continue
		}
		delay = wait.Retry(delay)
		_ = session.Pause(rs.session.Context(), delay) // those who wait leave when it ends
	}
}

// locate asks the cluster who has which slots, and lets waiters take part in rounds there.
func (rs *rounds) locate(all []*waiter) error {
	ctx, cancel := context.WithTimeout(rs.session.Context(), rs.acks.Timeout+grace)
	defer cancel()
	slots, err := cluster.Slots(ctx, rs.client, func(f func()) { rs.session.Start(f) })
	if err != nil {
		err = disown(err)
	} else if slots.Owner(wire.Slot(all[0].grants[0].Key)) == "" {
		err = errNode
	}
	rs.mu.Lock()
	rs.slots = slots
	for _, w := range all {
		w.trouble = cmp.Or(err, w.trouble)
	}
	rs.mu.Unlock()
	for _, w := range all {
		rs.join(w)
	}
	return err
}

func (rs *rounds) troubleOf(w *waiter) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if w.trouble == nil {
		return errLate
	}
	return w.trouble
}

// elsewhere is a key like that of [wire.Acked], in another slot of the server's; "" if there is none.
func (rs *rounds) elsewhere(at *server, name string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for i := range math.MaxUint16 {
		key := wire.AckedBeside(name, i)
		if slot := wire.Slot(key); slot != wire.Slot(name) && rs.slots.Owner(slot) == at.addr {
			return key
		}
	}
	return ""
}
