package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Several makes one lock of n reentrant ones.
func Several(n int) Kind {
	return func(s *holdfast.Session, name string) holdfast.Locker {
		var locks []holdfast.Locker
		for i := range n {
			locks = append(locks, rlock.New(s, fmt.Sprint(name, i), nil))
		}
		return multilock.New(locks...)
	}
}

// A Majority is what a RedLock costs beside the same lock on its slowest server.
type Majority struct {
	Commands           float64       // per server and cycle
	Allocs             float64       // per cycle; the least of some measurements
	Ages               float64       // how often a server was asked for its age, per cycle
	Lock, Release      time.Duration // medians
	OneLock, OneReturn time.Duration // of the slowest server alone
	Single             time.Duration // lock and release of the locks on all servers, each by itself, at once
}

// MeasureMajority measures cycles of a RedLock of n servers, of which the i-th answers a script after i times the
// delay.
func MeasureMajority(tb testing.TB, n int, delay time.Duration) Majority {
	var servers []*redistest.Server
	var locks []holdfast.Locker
	for i := range n {
		srv := redistest.Start(tb)
		addr := srv.Addr()
		if delay > 0 {
			p := proxy.Start(tb, addr)
			p.On(proxy.Command("EVALSHA"), proxy.Delay(time.Duration(i+1)*delay), proxy.EveryTime)
			addr = p.Addr()
		}
		servers = append(servers, srv)
		locks = append(locks, rlock.New(open(tb, 30*time.Second, addr), "orders:42", nil))
	}
	red := multilock.NewRedLock(locks, &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 5 * time.Second})
	for range 5 {
		times(tb, red)
		times(tb, locks[n-1])
	}
	var m Majority
	const cycles = 60
	var lock, release, one, back, single []time.Duration
	for range cycles {
		a, b := times(tb, locks[n-1])
		one, back = append(one, a), append(back, b)
		began := time.Now()
		var all sync.WaitGroup
		for _, l := range locks {
			all.Go(func() { times(tb, l) })
		}
		all.Wait()
		single = append(single, time.Since(began))
	}
	for _, srv := range servers {
		srv.ResetStats(tb)
	}
	for range cycles {
		a, b := times(tb, red)
		lock, release = append(lock, a), append(release, b)
	}
	for _, srv := range servers {
		stats := srv.CommandStats(tb)
		m.Commands += float64(stats["evalsha"]) / cycles / float64(n)
		m.Ages += float64(stats["info"]) / cycles / float64(n)
	}
	m.Allocs = math.Inf(1)
	for range 5 { // the order in which the servers answer makes a difference of one or two
		m.Allocs = min(m.Allocs, testing.AllocsPerRun(cycles, func() { cycle(tb, context.Background(), red) }))
	}
	m.Lock, m.Release, m.OneLock, m.OneReturn = median(lock), median(release), median(one), median(back)
	m.Single = median(single)
	return m
}

// times takes and releases a lock, and returns how long each took. Everything is given back before it returns.
func times(tb testing.TB, l holdfast.Locker) (lock, release time.Duration) {
	began := time.Now()
	h, err := l.Lock(context.Background())
	must(tb, err)
	lock = time.Since(began)
	began = time.Now()
	must(tb, h.Release())
	return lock, time.Since(began)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
