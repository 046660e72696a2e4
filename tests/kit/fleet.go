package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A Fleet is a set of independent servers, each with a proxy in front. Sessions that go through the proxies are
// called near, the others far: network faults hit only the near ones.
type Fleet struct {
	*testing.T
	Servers []*redistest.Server
	Proxies []*proxy.Proxy
	log     Journal // of the near sessions
}

// NewFleet starts servers that have all scripts loaded.
func NewFleet(t *testing.T, n int) *Fleet {
	Building <- struct{}{}
	defer func() { <-Building }()
	f := &Fleet{T: t, Servers: StartServers(t, n)}
	for _, srv := range f.Servers {
		LoadScripts(t, srv)
		f.Proxies = append(f.Proxies, proxy.Start(t, srv.Addr()))
	}
	return f
}

// StartProxied starts a server that has all scripts loaded, and a proxy in front of it.
func StartProxied(t testing.TB) (*redistest.Server, *proxy.Proxy) {
	t.Helper()
	srv := redistest.Start(t)
	LoadScripts(t, srv)
	return srv, proxy.Start(t, srv.Addr())
}

// Near opens a session on each server, through the proxies.
func (f *Fleet) Near(opts *holdfast.Options) (sessions []*holdfast.Session) {
	f.Helper()
	logged := holdfast.Options{Lease: Lease}
	if opts != nil {
		logged = *opts
	}
	logged.Logger = f.log.JsonLogger()
	for _, p := range f.Proxies {
		sessions = append(sessions, Open(f, p.Addr(), &logged))
	}
	return sessions
}

// Far opens a session on each server.
func (f *Fleet) Far(opts *holdfast.Options) []*holdfast.Session {
	f.Helper()
	return OpenAll(f, f.Servers, opts)
}

// Empty waits until nothing is left on any server.
func (f *Fleet) Empty() {
	f.Helper()
	Await(f, "empty servers", func() bool { return KeysLeft(f, f.Servers) == 0 })
}

// Seasoned waits until the servers have been up for a lease, as far as anybody can tell.
func (f *Fleet) Seasoned(length time.Duration) {
	f.Helper()
	for _, srv := range f.Servers {
		Await(f, "a server that has been up for a lease",
			func() bool { return Uptime(f, srv) > int(length/time.Second) })
	}
}

// Uptime returns for how many seconds a server has been up, with an error of at most one.
func Uptime(t testing.TB, srv *redistest.Server) (seconds int) {
	t.Helper()
	_, rest, _ := strings.Cut(srv.Str(t, "INFO", "server"), "uptime_in_seconds:")
	_, err := fmt.Sscan(rest, &seconds)
	require.NoError(t, err)
	return seconds
}

// Cut cuts the near ones off from a server.
func (f *Fleet) Cut(i int) {
	f.Proxies[i].RefuseNew(true)
	f.Proxies[i].CutAll()
}

// Heal ends what Cut began, for all servers.
func (f *Fleet) Heal() {
	for _, p := range f.Proxies {
		p.RefuseNew(false)
	}
}

// Careful has options for tests about restarts.
var Careful = &multilock.RedLockOptions{ServerTimeout: 900 * time.Millisecond}

// Beside returns another fleet of the same servers, with its own proxies.
func (f *Fleet) Beside() *Fleet {
	other := &Fleet{T: f.T, Servers: f.Servers}
	for _, srv := range f.Servers {
		other.Proxies = append(other.Proxies, proxy.Start(f, srv.Addr()))
	}
	return other
}

// An Outage is one way in which a server does not answer the near sessions in time. Begin returns what ends it.
type Outage struct {
	Name  string
	Begin func(f *Fleet, i int) (end func())
}

// The outages:
var (
	Killed = Outage{"killed", func(f *Fleet, i int) func() {
		f.Servers[i].Stop()
		return f.Servers[i].Restart
	}}
	Paused = Outage{"paused", func(f *Fleet, i int) func() {
		f.Servers[i].Pause()
		return f.Servers[i].Resume
	}}
	Slow   = SlowBy(2 * time.Second)
	CutOff = Outage{"cut off", func(f *Fleet, i int) func() {
		f.Cut(i)
		return func() { f.Proxies[i].RefuseNew(false) }
	}}
	Silent = Outage{"silent", func(f *Fleet, i int) func() {
		f.Proxies[i].Silence()
		return f.Proxies[i].ResumeAll
	}}
)

// SlowBy is the outage of a server that takes longer by d for every script.
func SlowBy(d time.Duration) Outage {
	return Outage{"slow", func(f *Fleet, i int) func() {
		return f.Proxies[i].On(AnyScript, proxy.Delay(d), proxy.EveryTime).Remove
	}}
}

// AnyScript matches every command that runs a script.
var AnyScript = proxy.Command("EVALSHA", "EVAL")

// Strike begins an outage of some servers.
func (f *Fleet) Strike(o Outage, servers ...int) (end func()) {
	var ends []func()
	for _, i := range servers {
		ends = append(ends, o.Begin(f, i))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// OnEach sets a rule on the proxies of some servers.
func (f *Fleet) OnEach(m proxy.Match, a proxy.Action, n proxy.Times, servers ...int) (remove func()) {
	return f.Strike(Outage{Begin: func(f *Fleet, i int) func() { return f.Proxies[i].On(m, a, n).Remove }}, servers...)
}

// Counts returns for each server how often it has the lock for that server's session.
func (f *Fleet) Counts(sessions []*holdfast.Session) []int {
	counts := make([]int, len(sessions))
	for i, s := range sessions {
		reply, err := f.Servers[i].Try("HGETALL", Orders)
		if fields, _ := reply.([]any); err == nil && len(fields) == 2 &&
			strings.HasPrefix(fmt.Sprint(fields[0]), s.ID()) {
			_, _ = fmt.Sscan(fmt.Sprint(fields[1]), &counts[i])
		}
	}
	return counts
}

// Has waits until the counts are those wanted. A hold may not know of all: it gives back what it was granted too late.
func (f *Fleet) Has(sessions []*holdfast.Session, want ...int) {
	f.Helper()
	var got []int
	defer func() {
		if f.Failed() {
			f.Log("at the end the servers had it as often as", got)
		}
	}()
	Await(f, fmt.Sprint("the lock on the servers, as often as ", want), func() bool {
		got = f.Counts(sessions)
		return slices.Equal(want, got)
	})
}

// Joined returns how many servers the holds of near sessions know that they have got since they were taken.
func (f *Fleet) Joined() int {
	f.Helper()
	return len(f.log.Entries(f.T, "holdfast: another server has the lock"))
}

// Everywhere takes a lock, and returns when its hold knows that it has it on all servers: at first the lock is granted
// by as few as it needs, by the last ones.
func (f *Fleet) Everywhere(lock func(context.Context) (*holdfast.Hold, error)) *holdfast.Hold {
	f.Helper()
	var spare []int
	for i := range (len(f.Servers) - 1) / 2 {
		spare = append(spare, i)
	}
	before := f.Joined()
	remove := f.OnEach(AnyScript, proxy.Answer("-LOADING it is not there yet"), proxy.EveryTime, spare...)
	h, err := lock(f.Context())
	require.NoError(f, err)
	remove()
	defer func() {
		if f.Failed() {
			f.Log(f.log.String())
		}
	}()
	Await(f, "the hold to have all servers", func() bool { return f.Joined() >= before+len(spare) })
	return h
}

// Keeps checks for the time d that a hold is believed in and that nobody can get the other lock, which it excludes.
func (f *Fleet) Keeps(d time.Duration, h *holdfast.Hold, other *multilock.RedLock) {
	f.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); SleepUntil(time.Now().Add(200 * time.Millisecond)) {
		_, err := other.TryLock(f.Context())
		require.NoError(f, h.Err())
		require.Error(f, err, "two have it")
	}
}

// GrantAndRelease checks that a waiter gets the lock, and releases it.
func GrantAndRelease(t testing.TB, got <-chan Result) {
	t.Helper()
	r := Within(t, 10*time.Second, got, "the lock")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
}

// Patient has options for tests whose servers have only just started, or are slow at times.
var Patient = &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 2500 * time.Millisecond}

// ReentrantMember makes a reentrant member of a RedLock.
func ReentrantMember(s *holdfast.Session, name string) holdfast.Locker {
	return rlock.New(s, name, nil)
}

// PlainMember makes a member of a RedLock that is a plain key.
func PlainMember(s *holdfast.Session, name string) holdfast.Locker { return setlock.New(s, name, nil) }

// RedLock makes a RedLock of one name on the servers of the sessions.
func RedLock(sessions []*holdfast.Session, name string, member func(*holdfast.Session, string) holdfast.Locker,
	opts *multilock.RedLockOptions,
) *multilock.RedLock {
	var locks []holdfast.Locker
	for _, s := range sessions {
		locks = append(locks, member(s, name))
	}
	return multilock.NewRedLock(locks, opts)
}

// KeysLeft returns the number of keys on all servers.
func KeysLeft(t testing.TB, servers []*redistest.Server) (n int) {
	for _, srv := range servers {
		n += len(srv.Keyspace(t))
	}
	return n
}
