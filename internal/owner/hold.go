package owner

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// A Hold is one acquisition: until when it is trusted, and what may change that.
type Hold[H any] struct {
	Of H // what the caller has around it

	next     *Hold[H]      // of the same grant, live or detached
	acquired time.Duration // when the reply came
	trust    atomic.Int64  // a time.Duration; the only thing that is read without the caller's mutex
	unsure   time.Duration // calls sent before then say nothing: the lease may have been made another since
}

// Begin makes h a hold that was granted by a reply that came at acquired, and is trusted until then.
func (h *Hold[H]) Begin(of H, acquired, until time.Duration) {
	h.Of, h.acquired = of, acquired
	h.trust.Store(int64(until))
}

// Acquired is the moment when the reply came.
func (h *Hold[H]) Acquired() time.Duration { return h.acquired }

// Trust is the moment until which the hold is trusted.
func (h *Hold[H]) Trust() time.Duration { return time.Duration(h.trust.Load()) }

// Trusted reports whether the hold is trusted now.
func (h *Hold[H]) Trusted(now time.Duration) bool { return now < h.Trust() }

// Limit makes the hold trusted at most until then, unless it has been renewed. If that was over when the reply came,
// trust ends at that moment, since no hold lasts for a negative time.
func (h *Hold[H]) Limit(until time.Duration) {
	h.trust.Store(int64(max(min(h.Trust(), until), h.acquired)))
}

// Believe makes the hold trusted until then because of a call sent at sent, unless that says nothing. It
// reports whether the hold was trusted at all: no reply revives one that was not (G1).
func (h *Hold[H]) Believe(now, sent, until time.Duration) (trusted bool) {
	if !h.Trusted(now) {
		return false
	}
	if sent >= h.unsure {
		h.trust.Store(int64(max(h.Trust(), until)))
	}
	return true
}

// A Belief is until when a hold is trusted, and from when on a call must have been sent to change that.
type Belief struct{ Until, Unsure time.Duration }

// Believed is until when holds were trusted at some moment.
type Believed []time.Duration

// Believed is until when the live holds are trusted now.
func (g *Grant[G, H]) Believed() (all Believed) {
	for h := g.live; h != nil; h = h.next {
		all = append(all, h.Trust())
	}
	return all
}

// Forgot follows an answer of the server, by which the lease ends before end: another one may have taken over that has
// not heard of the call that made it longer. Holds that were believed for longer before the server was asked, and still
// are, are trusted at most until then, and so is one that has followed such a hold by [Claim.Pass]. It reports whether
// there are any.
func (g *Grant[G, H]) Forgot(believed Believed, end, until time.Duration) (some bool) {
	for h := g.live; h != nil; h = h.next {
		if now := h.Trust(); now > end && slices.Contains(believed, now) {
			some = true
			g.limitAcked(until)
			h.Limit(until)
		}
	}
	return some
}

// Distrust makes one of g's holds trusted at most until then, whatever else is under way, and what replicas have
// acknowledged last no longer. It returns the trust from before.
func (g *Grant[G, H]) Distrust(h *Hold[H], until time.Duration) (before Belief) {
	g.limitAcked(until)
	return h.distrust(until)
}

func (h *Hold[H]) distrust(until time.Duration) (before Belief) {
	before = Belief{Until: h.Trust(), Unsure: h.unsure}
	h.Limit(until)
	h.unsure = forever
	return before
}

// TrustAgain ends that: a call sent at sent makes the hold trusted until then, unless an earlier update may still be
// executed after it; of other calls only those count that are sent from the moment unsure on. It reports what Believe
// does.
func (h *Hold[H]) TrustAgain(before Belief, now, unsure, sent, until time.Duration) (trusted bool) {
	h.unsure = before.Unsure
	trusted = h.Believe(now, sent, until)
	h.unsure = unsure
	return trusted
}

// forgotten is when the server has no lease any more of a hold that nobody prolongs: that lasts longer than trust by
// the margin, which is a hundredth of the lease, at most 50 ms.
func (h *Hold[H]) forgotten() time.Duration {
	return lease.Add(h.Trust(), (h.Trust()-h.acquired)/50+100*time.Millisecond)
}
