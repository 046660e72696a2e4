package core

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// bare is the protocol of a lock that sends nothing.
type bare struct{ kind.Protocol }

func (bare) Renewal() *script.Script { return kind.RenewScript }

// A process may be stopped as soon as a call has returned. The hold must be with the watchdog by then, and not with a
// goroutine that will pass it on.
func TestAHoldIsWatchedFromItsBeginningToItsEnd(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // no other goroutine runs until this one waits
	const length = 30 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		s := new(session.Session)
		*s.Config() = session.Config{Lease: length}
		k := &keeper{session: s}
		var watched []*grant
		k.dog = lease.NewWatchdog(func() time.Duration { return time.Hour }, length,
			func(f func()) { f() }, func(batch []*grant) { watched = append(watched, batch...) }, (*grant).look)
		object := session.NewObject(s, session.Label{}, nil)
		l := &Lock{Object: object, Settings: &kind.Settings{}, keeper: k, protocol: bare{}}
		c := new(claim)
		var o outermost
		h := o.begin(l, c, "wire", &answer{Reply: script.Reply{Sent: s.Now(), At: s.Now()}}, 0)
		k.dog.Run(ctx) // looks once
		assert.Equal(t, []*grant{h.grant}, watched)

		k.dog.Renewed(h.grant, s.Now())
		c.Lock()
		h.grant.drop(h)
		watched = nil
		k.dog.Run(ctx)
		assert.Empty(t, watched)
		if t.Failed() {
			return
		}
	}
}

// A grant that is about to move, under its claim's mutex, finds every hold that has ended until then.
func TestAHoldEndsUnderTheMutexOfItsClaim(t *testing.T) {
	s := new(session.Session)
	*s.Config() = session.Config{Lease: time.Minute}
	k := &keeper{session: s}
	k.dog = lease.NewWatchdog(s.Now, time.Minute, func(f func()) { f() }, func([]*grant) {}, (*grant).look)
	object := session.NewObject(s, session.Label{}, nil)
	l := &Lock{Object: object, Settings: &kind.Settings{}, keeper: k, protocol: bare{}}
	c := new(claim)
	h := new(outermost).begin(l, c, "wire", &answer{Reply: script.Reply{Sent: s.Now(), At: s.Now()}}, 0)

	c.Lock()
	ended := make(chan struct{})
	go func() {
		_ = h.finish(detachedEnd) // why it has ended
		close(ended)
	}()
	time.Sleep(20 * time.Millisecond)
	assert.Nil(t, h.ended.Load())
	c.Unlock()
	<-ended
	assert.Equal(t, detachedEnd, h.ended.Load())
}

// lined is a protocol that says for which lease a lock stands in a line.
type lined struct {
	bare
	lock *Lock
}

func (p lined) Channel() string { return "" }
func (p lined) Mark() string    { return "" }
func (p lined) Kind() string    { return p.lock.Millis() }
func (p lined) Open() bool      { return false }

// A call must not get the place of one with another lease: what is owed of that one lasts for another time.
func TestALockStandsInALineWithItsOwnLease(t *testing.T) {
	s := new(session.Session)
	*s.Config() = session.Config{Lease: 30 * time.Second}
	session.Attached(s, func(*session.Session) *keeper { return &keeper{session: s, millis: "30000"} })
	for fixed, want := range map[time.Duration]string{0: "30000", time.Minute: "60000"} {
		l := new(Lock)
		label, channel := session.Label{Kind: "rlock", Name: "x"}, func(key string) string { return key }
		InitLock(l, s, lined{lock: l}, label, &kind.Settings{}, fixed, channel)
		assert.Equal(t, want, l.standing().Kind())
	}
}

// noServer is a client that sends nothing.
type noServer struct{ rueidis.Client }

func (noServer) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// A renewal that fails is tried again soon, and said; one that Close has cut off is neither.
func TestARenewalThatFails(t *testing.T) {
	const length = 20 * time.Minute
	s := session.New(session.Config{
		Client: noServer{}, Lease: length, Logger: slog.New(slog.DiscardHandler),
		Observer: &session.Observer{Renewal: func(string, string, error) {}},
	})
	var batches int
	now := time.Hour
	k := &keeper{session: s}
	k.dog = lease.NewWatchdog(func() time.Duration { return now }, length,
		func(f func()) { f() }, func([]*grant) { batches++ }, (*grant).look)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	look := func() (n int) {
		batches = 0
		k.dog.Run(ctx)
		return batches
	}
	l := &Lock{
		Object: session.NewObject(s, session.Label{}, nil), Settings: &kind.Settings{}, keeper: k, protocol: bare{},
	}
	h := new(outermost).begin(l, new(claim), "wire", &answer{Reply: script.Reply{Sent: s.Now(), At: s.Now()}}, 0)
	require.Equal(t, 1, look())

	why := &script.Failure{Class: script.Refused, Err: errors.New("no")}
	assert.Len(t, k.failed(nil, h.grant, why), 2, "the log and the observer")
	now += length/20 - 1
	assert.Zero(t, look())
	now++
	assert.Equal(t, 1, look())

	require.NoError(t, s.Close())
	assert.Empty(t, k.failed(nil, h.grant, why))
	now += length
	assert.Zero(t, look())
}
