package kit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// RingLease is the lease of the sessions of a ring.
const RingLease = 20 * time.Second

// A Ring is owners that wait for each other: each has a lock and wants that of the next one.
type Ring struct {
	IDs   []string // of their holds
	Names []string // of their locks
	Ended chan RingEnd

	srv     *redistest.Server
	members []ringMember
}

// A RingEnd is how the wait of an owner ended.
type RingEnd struct {
	Who int
	Err string // "" if it was granted
}

type ringMember struct{ wait, leave func() }

// Rings are the ways in which owners may be apart.
var Rings = []string{"of one session", "of one process", "of as many processes"}

// NewRing makes owners each of whom has a lock. Their sessions tell which processes they are, and may break deadlocks.
func NewRing(t testing.TB, srv *redistest.Server, owners int, apart string, breaks bool) *Ring {
	r := &Ring{srv: srv, Ended: make(chan RingEnd, owners)}
	var shared *holdfast.Session
	for i := range owners {
		name, next := ringLock(i), ringLock((i+1)%owners)
		r.Names = append(r.Names, name)
		if apart == Rings[2] {
			r.startProcess(t, i, breaks, name, next)
			continue
		}
		if shared == nil || apart == Rings[1] {
			shared = OpenKnown(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, ringOptions(breaks))
		}
		o, err := newRingOwner(shared, name, next)
		require.NoError(t, err)
		r.IDs = append(r.IDs, o.has.ID())
		r.members = append(r.members, ringMember{
			wait:  func() { o.wait(func(text string) { r.Ended <- RingEnd{i, text} }) },
			leave: func() { require.NoError(t, o.leave()) },
		})
	}
	return r
}

func ringLock(i int) string { return "lock " + strconv.Itoa(i) }

func ringOptions(breaks bool) *holdfast.Options {
	return &holdfast.Options{Lease: RingLease, BreakDeadlocks: breaks}
}

func (r *Ring) startProcess(t testing.TB, i int, breaks bool, name, next string) {
	has := make(chan string, 1)
	w := worker.Start(t, func(line string) {
		if id, ok := strings.CutPrefix(line, "has "); ok {
			has <- id
		} else if text, ok := strings.CutPrefix(line, "ended "); ok {
			r.Ended <- RingEnd{i, text}
		}
	}, "ring", r.srv.Addr(), strconv.FormatBool(breaks), name, next)
	r.IDs = append(r.IDs, Within(t, time.Minute, has, "a hold of a process"))
	r.members = append(r.members, ringMember{
		wait: func() { w.Tell("wait") },
		leave: func() {
			w.Tell("leave")
			Within(t, time.Minute, w.Ended(), "the end of a process")
		},
	})
}

// Close has all wait, one after the other, and returns when the last one is about to.
func (r *Ring) Close(t testing.TB) {
	last := len(r.members) - 1
	for i := range last {
		r.members[i].wait()
		Await(t, "a waiter", func() bool { return r.srv.Int(t, "LLEN", "holdfast_line:{"+r.Names[i+1]+"}") == 1 })
	}
	SleepUntil(time.Now().Add(5 * time.Millisecond)) // so that it is known who is the youngest
	r.members[last].wait()
}

// Leave ends the waits that go on, and gives all back.
func (r *Ring) Leave() {
	for i := len(r.members) - 1; i >= 0; i-- {
		r.members[i].leave()
	}
}

// Rounds returns a function that counts rounds from now on, when it is called often: in each of them every session has
// told at least once for what it waits. A session reports at most four times a second.
func (r *Ring) Rounds(t testing.TB) (count func() int) {
	before, rounds := r.told(t), 0
	return func() int {
		now := r.told(t)
		for i := range now {
			if now[i] == before[i] {
				return rounds
			}
		}
		before = now
		rounds++
		return rounds
	}
}

// told is how often each of the sessions has told for what it waits.
func (r *Ring) told(t testing.TB) []uint64 {
	counts := make([]uint64, len(r.IDs))
	for i, id := range r.IDs {
		session, _, _ := strings.Cut(id, ":")
		var says struct{ Told uint64 }
		if text, _ := r.srv.Do(t, "GET", "holdfast_session:{"+session+"}").(string); text != "" {
			require.NoError(t, json.Unmarshal([]byte(text), &says))
		}
		counts[i] = says.Told
	}
	return counts
}

// RingOwner is the role of an owner in a process of its own.
func RingOwner(args []string) {
	s, err := holdfast.Open(rueidis.ClientOption{InitAddress: args[:1]}, ringOptions(args[1] == "true"))
	Must(err)
	o, err := newRingOwner(s, args[2], args[3])
	Must(err)
	worker.Say("has %s", o.has.ID())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan() && lines.Text() == "wait"; {
		o.wait(func(text string) { worker.Say("ended %s", text) })
	}
	Must(o.leave())
	Must(s.Close())
}

// A ringOwner has a lock, and waits for another.
type ringOwner struct {
	has    *holdfast.Hold
	next   *rlock.Mutex
	cancel context.CancelFunc
	ended  chan *holdfast.Hold
}

func newRingOwner(s *holdfast.Session, name, next string) (*ringOwner, error) {
	has, err := rlock.New(s, name, nil).Lock(context.Background())
	return &ringOwner{has: has, next: rlock.New(s, next, nil), cancel: func() {}}, err
}

func (o *ringOwner) wait(ended func(text string)) {
	ctx, cancel := context.WithCancel(o.has.Context(context.Background()))
	o.cancel, o.ended = cancel, make(chan *holdfast.Hold, 1)
	go func() {
		h, err := o.next.Lock(ctx)
		text := ""
		if err != nil {
			text = fmt.Sprint(err)
		}
		ended(text)
		o.ended <- h
	}()
}

// leave ends the wait, and gives back what the owner has.
func (o *ringOwner) leave() error {
	o.cancel()
	if o.ended != nil {
		if h := <-o.ended; h != nil {
			if err := h.Release(); err != nil {
				return err
			}
		}
	}
	return o.has.Release()
}
