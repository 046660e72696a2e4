// Package checks asks servers whether they still have what a session holds, when another one may have taken over.
//
// A connection that ends or begins, a server that turns out to be a replica, subscriptions that are interrupted, and
// another replication id are signs of that. One goroutine then asks for everything, 500 names of a server or slot in
// one call, until all of it is answered. While nothing changes, nothing is sent.
package checks

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Subject is what a server is asked about: what it has granted to a wire owner.
type Subject struct {
	Group    lease.Group
	Protocol kind.Protocol
	Key      string
	Wire     string
	Lasts    Lasts
}

// Lasts learns for how long a lease still lasts at some moment since then; 0: the server has nothing of it.
type Lasts func(then, d time.Duration)

// Checks are those of a session that holds grants of type G.
type Checks[G any] struct {
	session *session.Session
	all     func() []G
	about   func(g G) Subject
	then    func()

	signs   atomic.Int64 // so far
	wanted  atomic.Int64 // checks so far: one for each sign, and for what Since has found
	running atomic.Bool
}

// New returns checks of all that a session holds. They call then when all servers have answered.
func New[G any](s *session.Session, all func() []G, about func(g G) Subject, then func()) *Checks[G] {
	return &Checks[G]{session: s, all: all, about: about, then: then}
}

// Changed says that another server may have taken over. It does not block.
func (c *Checks[G]) Changed() {
	c.signs.Add(1)
	c.want()
}

func (c *Checks[G]) want() {
	c.wanted.Add(1)
	if c.running.CompareAndSwap(false, true) && !c.session.Start(c.run) {
		c.running.Store(false)
	}
}

// Signs is how many there were so far.
func (c *Checks[G]) Signs() int64 { return c.signs.Load() }

// Since checks again what is held if there were more signs by now: the last check may not know of what was granted
// before a sign and answered after it. That is no sign for others, or attempts that overlap would never leave off.
func (c *Checks[G]) Since(signs int64) {
	if c.Signs() != signs {
		c.want()
	}
}

// run checks everything, once more if that was wanted meanwhile.
func (c *Checks[G]) run() {
	for {
		seen := c.wanted.Load()
		c.check()
		c.running.Store(false)
		again := c.wanted.Load() != seen && c.session.Context().Err() == nil
		if !again || !c.running.CompareAndSwap(false, true) {
			return
		}
	}
}

// patience is for how long one attempt waits for answers.
const patience = 2 * time.Second

// check asks until everything is answered, and once more for all whenever another server may have taken over meanwhile:
// one may be down for long.
func (c *Checks[G]) check() {
	left, size := c.all(), lease.BatchSize
	if len(left) == 0 {
		return
	}
	for delay := time.Duration(0); ; {
		var apart bool
		seen := c.wanted.Load()
		if left, apart = c.ask(left, size); len(left) == 0 {
			c.then()
			return
		}
		if apart { // some of the names keep a server from answering for the others
			size = 1
		}
		delay = wait.Retry(delay)
		if session.Pause(c.session.Context(), wait.Interval(delay)) != nil {
			return
		}
		if c.wanted.Load() != seen { // not of another size: to dial a node that is down is a sign each time
			left = c.all()
		}
	}
}

// A look is a call about some grants.
type look[G any] struct {
	*script.Call
	key  string
	of   []G
	tell []Lasts
}

// ask asks once, and returns what was not answered, and whether that was so because of some of the names.
func (c *Checks[G]) ask(all []G, size int) (left []G, apart bool) {
	looks := c.looks(all, size)
	calls := make([]*script.Call, len(looks))
	for i, l := range looks {
		calls[i] = l.Call
	}
	ctx, cancel := context.WithTimeoutCause(c.session.Context(), patience, session.ErrNoReply)
	defer cancel()
	runner, sent := c.session.Runner(), c.session.Now()
	runner.RunAll(ctx, calls, func(i int, err error) {
		l := looks[i]
		defer l.Free()
		var answers []rueidis.RedisMessage
		if err == nil {
			_, answers, err = runner.ReadRenewal(l.Call, l.key, len(l.of))
		}
		switch {
		case err == nil:
		case len(l.of) > 1 && script.BecauseOfKeys(err):
			left, apart = append(left, l.of...), true
		case script.IsTemporary(err) || !script.BecauseOfKeys(err): // the session may not log in, say: that is no answer
			left = append(left, l.of...)
		}
		for j, answer := range answers {
			if n, bad := answer.AsInt64(); bad == nil && n != 1 { // which is also a key without an end
				l.tell[j](sent, lease.Lasting(n))
			}
		}
	})
	return left, apart
}

// looks makes the calls, each for up to size grants.
func (c *Checks[G]) looks(all []G, size int) (looks []*look[G]) {
	open := make(map[lease.Group]*look[G])
	for _, g := range all {
		s := c.about(g)
		l := open[s.Group]
		if l == nil || len(l.of) == size {
			l = &look[G]{Call: script.NewCall(s.Protocol.Renewal()).Arg(lease.Look), key: s.Key}
			open[s.Group], looks = l, append(looks, l)
		}
		s.Protocol.Renew(l.Call, s.Wire)
		l.of, l.tell = append(l.of, g), append(l.tell, s.Lasts)
	}
	return looks
}
