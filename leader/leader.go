// Package leader elects one of several processes, which leads until it resigns, dies or is cut off; then the next one
// does.
//
//	err := leader.Run(ctx, session, "billing", func(ctx context.Context) error {
//		return bill(ctx, leader.Term(ctx)) // ends when ctx does
//	})
//
// An election is a fair lock of that name, whose holder leads: candidates stand in its queue in the order in which they
// came, [Candidates] lists them, and so does "holdfast show". Each term has a number, a fencing token, which is higher
// than that of every earlier term. The leader's ctx ends before the next term can begin, as far as a lease can promise:
// a process that is paused between its last look at ctx and a write may still write. Hand the term to what it writes
// to, and let that refuse lower ones.
//
// A leader that resigns hands over within a round trip. One that dies is followed when the lease of its session is over
// ([holdfast.Options].Lease); so is one that is cut off, which knows that it does not lead any more by then. Candidates
// that die cost nothing, unless the next one dies together with the leader: it is waited for, for at most half of its
// lease, but for up to 1 s if the lease is below 2 s, and never for more than 15 s. A server that forgets what it
// granted, after a failover or a restart without its data, can have two leaders for a moment. Terms follow the server's
// clock, in microseconds, so even then the later one has the higher term, unless the clock went back as well.
//
// Use a name of its own for each election. A fairlock of that name is the same lock, with holders that do not lead.
package leader

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const (
	recordTTL = 24 * time.Hour  // of the record of a leader, and of the last term
	repeat    = time.Minute     // a leader is recorded that often: the server may have lost it
	retry     = 5 * time.Second // after it could not be
)

var tellScript = script.Load("leader_tell")

// An election is one candidate of a name.
type election struct {
	session.Object
	lock *fairlock.Mutex
}

func newElection(s *holdfast.Session, name string) *election {
	e := new(election)
	inside := (*session.Session)(s)
	session.InitObject(&e.Object, inside, session.Label{Kind: "leader", Name: name}, wire.LeaderKey)
	e.lock = fairlock.New(s, name, &fairlock.Options{
		Fenced: true, TokenTTL: recordTTL, NonReentrant: true,
		// A candidate that dies together with the leader is waited for that long, and shorter than the lease is.
		WaiterLease: min(max(inside.Lease()/2, time.Second), 15*time.Second),
	})
	return e
}

// A term is the time for which a candidate leads.
type term struct {
	election *election
	hold     *holdfast.Hold
	over     func() // tells an observer of the end; nil: nobody wants to know
}

type termKey struct{}

func termOf(ctx context.Context) *term {
	t, _ := ctx.Value(termKey{}).(*term)
	return t
}

// Run stands for election, calls lead when this candidate leads, and returns what lead returns. Until then it waits,
// behind all who came before it, and waits out an outage of the server. Where a term must be acknowledged by replicas
// ([holdfast.Options].Acks), it stands again until enough of them have it.
//
// The ctx of lead ends when the term does: when it is lost, when [Resign] is called, or when Run's own ctx ends. Return
// then. If lead returns while the term lasts, or after Run's ctx has ended, Run resigns and returns lead's error, nil
// included. If the term has ended before, Run ignores that error and stands again, at the end of the queue; lead is
// called again for the next term. It never runs twice at the same time.
//
// Run fails if ctx ends while it waits, with an error that matches ctx.Err() and its cause; with [holdfast.ErrClosed]
// if the session is closed; with [holdfast.ErrAlreadyHeld] inside of lead, for the same name; with
// [holdfast.ErrDeadlock] if ctx has an owner and [holdfast.Options].BreakDeadlocks is set; or with the server's
// refusal. If lead's term turns out to be lost when lead has returned, the loss is joined to its error, as
// [holdfast.Do] does. If lead panics, Run resigns and the panic goes on. To return, Run takes as long as
// [holdfast.Hold.Release] does, and at most a second more to tell the watchers.
func Run(ctx context.Context, s *holdfast.Session, name string, lead func(ctx context.Context) error) error {
	e := newElection(s, name)
	for {
		if again, err := e.stand(ctx, lead); !again {
			return err
		}
	}
}

// stand is one term of Run, or why there was none. It reports whether Run stands again: the term has ended before ctx.
func (e *election) stand(ctx context.Context, lead func(ctx context.Context) error) (again bool, err error) {
	var t *term
	var led, ended error // what lead has returned, and why the term was over by then
	defer func() {       // also if lead panics
		if t == nil { // an observer did
			return
		}
		if t.over != nil {
			t.over() // also if the context of the hold has not done it yet
		}
		if t.hold != nil && !again { // not in the background: the session may be closed next
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			t.ended(ctx)
		}
	}()
	err = holdfast.Do(ctx, func(ctx context.Context) (*holdfast.Hold, error) {
		hold, err := e.elect(ctx)
		t = &term{election: e, hold: hold}
		return hold, err
	}, func(held context.Context) error {
		led = t.serve(held, lead)
		ended = t.hold.Err()
		again = held.Err() != nil && errors.Is(context.Cause(held), ended) && !errors.Is(context.Cause(ctx), ended)
		return led
	})
	if errors.Is(ended, holdfast.ErrNotHeld) {
		err = led // it was resigned, which is no loss
	}
	return again, err
}

// elect waits until this candidate leads. It waits out that too few replicas have its term, as it does an outage.
func (e *election) elect(ctx context.Context) (*holdfast.Hold, error) {
	returning := 0 // for how many attempts, which take 2 s, the owner may still have a term that too few replicas had
	for delay := time.Duration(0); ; {
		hold, err := e.lock.Lock(ctx)
		short, ok := errors.AsType[*holdfast.NotAcknowledgedError](err)
		if returning--; ok {
			returning = 10
		}
		again := ok && !refusal.Denied(short.Err) || returning > 0 && errors.Is(err, holdfast.ErrAlreadyHeld)
		if !again || errors.Is(err, ctx.Err()) { // the cause of a ctx that has ended may be such an error, of another lock
			return hold, err //nolint:wrapcheck // it says which election it is
		}
		if delay == 0 {
			e.Session().Logger().Warn("holdfast: too few replicas have the term of a leader, who stands again until they do",
				"kind", "leader", "name", e.Name, "error", err)
		}
		delay = wait.Retry(delay)
		_ = session.Pause(ctx, delay) // if ctx ends, Lock says so
	}
}

// serve calls lead, and meanwhile records who leads.
func (t *term) serve(ctx context.Context, lead func(ctx context.Context) error) error {
	// The hold's own context is the innermost: it answers from the clock.
	ctx = t.hold.Context(context.WithValue(ctx, termKey{}, t))
	t.observe(ctx)
	told, stop := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { t.announce(told) })
	defer telling.Wait()
	defer stop()
	return lead(ctx)
}

// observe tells an observer that the term has begun, and at its end that it is over.
func (t *term) observe(ctx context.Context) {
	ended := t.election.Leading(ctx, t.hold.Token())
	if ended == nil {
		return
	}
	began := time.Now()
	t.over = sync.OnceFunc(func() {
		err := t.hold.Err()
		if errors.Is(err, holdfast.ErrNotHeld) {
			err = nil // it was resigned
		}
		ended(time.Since(began), err)
	})
	context.AfterFunc(t.hold.Context(context.Background()), t.over)
}

// announce has the server record the leader, until ctx ends. Nobody depends on it to lead.
func (t *term) announce(ctx context.Context) {
	for since := int64(0); ; {
		pause := retry
		now, err := t.tell(ctx, since)
		switch {
		case err == nil:
			since, pause = now, repeat
		case ctx.Err() == nil:
			t.election.Session().Logger().Warn("holdfast: the leader is not recorded", "kind", "leader",
				"name", t.election.Name, "error", err)
		}
		if session.Pause(ctx, pause) != nil {
			return
		}
	}
}

// ended tells the watchers that the term is over. If it cannot, they look again anyway.
func (t *term) ended(ctx context.Context) { _, _ = t.tell(ctx, 0) }

// tell records the leader if it leads, since then, and forgets it if it does not.
func (t *term) tell(ctx context.Context, since int64) (now int64, err error) {
	e, process := t.election, []byte(nil)
	if p := e.Session().Config().Process; p != nil {
		process, _ = json.Marshal(p) // never fails
	}
	c := script.NewCall(tellScript).Key(e.Key(), wire.LeaderKey(e.Key())).
		Arg(t.hold.ID(), strconv.FormatInt(t.hold.Token(), 10)).Int(since).Arg(string(process)).
		Int(recordTTL.Milliseconds()).Arg(e.Publish(), e.Channel)
	return e.RunInt(ctx, "tell", c)
}

// Term returns the number of the term that ctx belongs to, which [Run] has given to lead; 0 if it belongs to none. It
// is a fencing token: higher than that of every earlier term. It stays when the term has ended.
func Term(ctx context.Context) int64 {
	if t := termOf(ctx); t != nil {
		return t.hold.Token()
	}
	return 0
}

// errNoTerm is why [Resign] fails outside of a term.
var errNoTerm = errors.New("leader: resign: ctx is not of a term: want the ctx that Run has given to lead")

// Resign ends the term that ctx belongs to, ctx first, and hands over to the next candidate. Run stands again, at the
// end of the queue, once lead has returned; to stand no more, return from lead instead. It blocks for at most a third
// of the lease, and 5 s. If the term has ended already, it returns [holdfast.ErrNotHeld] or the loss; its other errors
// are those of [holdfast.Hold.Release].
func Resign(ctx context.Context) error {
	t := termOf(ctx)
	if t == nil {
		return errNoTerm
	}
	err := t.hold.Release()
	if err == nil {
		t.election.Go(t.ended)
	}
	return err
}

// Candidates returns who waits to lead, the next one first. The leader is not among them. Dead candidates are listed
// until somebody notices.
func Candidates(ctx context.Context, s *holdfast.Session, name string) ([]holdfast.Waiter, error) {
	return newElection(s, name).lock.Waiters(ctx)
}
